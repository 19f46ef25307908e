"""Monotonic chunkwise attention: a softmax over the chunk that ends where the reader stops."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.ops.choose import Implementation, choose
from regard.ops.monotonic import parallel, reference
from regard.shapes import Bool, Float


def refuse_width(
    stops: Tensor | None = None, energies: Any = None, support: Any = None, width: int | None = None
) -> str | None:
    """Why chunks cannot share their sums, or None: they must all begin at the first position."""
    if stops is None or width is None:
        return None
    if not isinstance(stops.shape[-1], int):
        return f"chunks of {width} among any number of positions may begin at different places"
    if width >= stops.shape[-1]:
        return None
    return f"chunks of {width} among {stops.shape[-1]} positions begin at different places"


MOVING_CHUNK_SOFTMAX = (
    Implementation("parallel", parallel.lookback_softmax, refuse_width),
    Implementation("reference", reference.moving_chunk_softmax),
)


def moving_chunk_softmax(
    stops: Float[Tensor, "R H S"],
    energies: Float[Tensor, "R H S"],
    support: Bool[Tensor, "R G S"] | None,
    width: int | None,
) -> Float[Tensor, "R H S"]:
    """Spreads the mass of every stopping position over the `width` positions that end there, by a softmax of energies.

    β_j = Σ_{k=j}^{j+w-1} α_k · exp(u_j) / Σ_{l=k-w+1}^{k} exp(u_l).

    Args:
        stops: α, the mass of every stopping position.
        energies: u.
        support: which positions may have mass; that of a chunk without support is lost.
        width: w; if None, every chunk begins at the first position.

    Cost: S·w numbers, exact for any energies: each chunk has its own softmax. A chunk as wide as the source needs S.

    Source: Chiu & Raffel 2018 (arXiv 1712.05382), equation 11; without a width: Arivazhagan et al. 2019
    (arXiv 1906.05218).
    """
    return choose(MOVING_CHUNK_SOFTMAX, stops, energies, support, width).function(stops, energies, support, width)
