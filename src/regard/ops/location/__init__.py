"""Location-sensitive energies by the fastest implementation that takes the inputs."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.ops import over_steps
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import refuse_compiled, refuse_kernels, refuse_numba
from regard.ops.location import additive, reference
from regard.ops.location.autograd import run, run_in_loop
from regard.shapes import Float, describe

KERNELS = "regard.ops.location.numba"

_refuse_shared = partial(refuse_compiled, KERNELS)


def location_energies(
    query: Float[Tensor, "B K H D"],
    keys: Float[Tensor, "B S H D"],
    past: Float[Tensor, "B K H C *positions"],
    filters: Float[Tensor, "H F C *widths"],
    projection: Float[Tensor, "H F D"],
    v: Float[Tensor, "H D"],
) -> Float[Tensor, "B K H S"]:
    """e_s = Σ_d v_d · tanh(q_d + k_sd + Σ_f (F_f * past)_s U_fd), for every head, of K rows that share keys.

    Filters slide over a line of S positions or, with two widths, over a plane of h·w = S cells, s = y·w + x. Half
    types are computed in float32.

    Args:
        query, keys: already projected.
        past: the alignments that the filters slide over, in C channels, (B, K, H, C, S) or (B, K, H, C, h, w); zero
            beyond all ends.
        filters: F, (H, F, C, W) or (H, F, C, Y, X), of odd widths.
        projection: U.

    Raises:
        ShapeError: for sizes or devices that do not fit together.

    Source: Chorowski et al. 2015 (arXiv 1506.07503), section 2; Shen et al. 2018 (arXiv 1712.05884), section 2.2; of a
    plane: Zhang et al. 2017 (doi 10.1016/j.patcog.2017.06.017), section 3.2.2.

    >>> query, keys, past = torch.zeros(2, 3, 1, 6), torch.zeros(2, 4, 1, 6), torch.ones(2, 3, 1, 1, 4)
    >>> filters, projection, v = torch.ones(1, 5, 1, 3), torch.ones(1, 5, 6), torch.ones(1, 6)
    >>> location_energies(query, keys, past, filters, projection, v).shape
    torch.Size([2, 3, 1, 4])
    """
    memory = keys, filters, projection, v
    kind = over_steps.once(_checked, *memory, query=query, past=past)
    loop = over_steps.current(query, past) if query.dtype == past.dtype == kind else None
    if loop is not None and loop.shared(_refuse_shared, *memory) is None:
        return run_in_loop(loop, query, keys, past, *memory[1:])
    kind = torch.promote_types(kind, torch.promote_types(query.dtype, past.dtype))
    working = torch.float32 if kind.itemsize < 4 else kind
    inputs = [x if x.dtype == working else x.to(working) for x in (query, keys, past, filters, projection, v)]
    energies: Tensor = choose(LOCATION_ENERGIES, *inputs).function(*inputs)
    return energies if energies.dtype == kind else energies.to(kind)


def _checked(keys: Tensor, *weights: Tensor, query: Tensor, past: Tensor) -> torch.dtype:
    """The widest type of what steps share, whose sizes are checked with those of the first step."""
    _check(query, keys, past, *weights)
    return reduce(torch.promote_types, [x.dtype for x in weights], keys.dtype)


def _check(query: Tensor, keys: Tensor, past: Tensor, filters: Tensor, projection: Tensor, v: Tensor) -> None:
    is_plane = filters.dim() == 5
    inputs = {
        "query": ("B K H D", query),
        "keys": ("B S H D", keys),
        "past": ("B K H C h w" if is_plane else "B K H C S", past),
        "filters": ("H F C Y X" if is_plane else "H F C W", filters),
        "projection": ("H F D", projection),
        "v": ("H D", v),
    }
    sizes: dict[str, int] = {}
    fit = len({x.device for _, x in inputs.values()}) == 1
    for letters, x in inputs.values():
        fit &= x.dim() == len(letters.split()) and all(
            sizes.setdefault(letter, size) == size for letter, size in zip(letters.split(), x.shape, strict=False)
        )
    if is_plane and fit:
        fit = sizes["h"] * sizes["w"] == sizes["S"]
    if not fit or any(width % 2 == 0 for width in filters.shape[3:]):
        shown, widths = describe(inputs), "Y and X" if is_plane else "W"
        relation = ", S must be h·w" if is_plane else ""
        raise ShapeError(
            f"The inputs must agree on their sizes and the device{relation}, and {widths} must be odd.\n{shown}"
        )


def _refuse_numba(*inputs: Any) -> str | None:
    return refuse_kernels(*inputs) or refuse_numba(KERNELS, *inputs)


LOCATION_ENERGIES = (
    Implementation("numba", run, _refuse_numba),
    Implementation("additive", additive.location_energies),
    Implementation("reference", reference.location_energies),
)
