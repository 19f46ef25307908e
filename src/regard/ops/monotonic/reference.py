"""The exact recursions, position by position."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float


def expected_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """Where a left-to-right reader stops, in expectation, when it starts at `previous`.

    q_j = (1 - p_{j-1}) q_{j-1} + α_{i-1,j},  α_{i,j} = p_j q_j.

    Args:
        choose: p, the probability of stopping at each position once there.
        previous: α_{i-1}, where the last step stopped.

    Returns:
        α_i; it sums to at most 1, less by the probability of running past the end.

    Source: Raffel et al. 2017 (arXiv 1704.00784), equations 8 to 11.
    """
    passed_on = previous.new_zeros(previous.shape[:-1])
    alignment = []
    for p, start in zip(choose.unbind(-1), previous.unbind(-1), strict=True):
        arrived = passed_on + start
        passed_on = (1 - p) * arrived
        alignment.append(p * arrived)
    return torch.stack(alignment, -1) if alignment else torch.zeros_like(previous)


def moving_chunk_softmax(
    stops: Float[Tensor, "R H S"], energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, width: int
) -> Float[Tensor, "R H S"]:
    """Spreads the mass of every stopping position over the `width` positions that end there, by a softmax of energies.

    β_j = Σ_{k=j}^{j+w-1} α_k · exp(u_j) / Σ_{l=k-w+1}^{k} exp(u_l).

    Cost: S·w numbers, exact for any energies: each chunk has its own softmax.

    Source: Chiu & Raffel 2018 (arXiv 1712.05382), equation 11.
    """
    num_positions = energies.shape[-1]
    if num_positions == 0:
        return torch.zeros_like(stops)
    allowed = torch.ones_like(energies, dtype=torch.bool) if support is None else support.expand_as(energies)
    before = (width - 1, 0)
    chunks = torch.nn.functional.pad(energies, before).unfold(-1, width, 1)
    inside = torch.nn.functional.pad(allowed, before).unfold(-1, width, 1)
    mass = stops[..., None] * masked_softmax(chunks, inside)
    after = torch.nn.functional.pad(mass, (0, 0, 0, width - 1))
    return sum(
        (after[..., width - 1 - place : width - 1 - place + num_positions, place] for place in range(width)),
        start=torch.zeros_like(stops),
    )
