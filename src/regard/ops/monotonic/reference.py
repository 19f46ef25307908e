"""The exact recursions, position by position."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float


def expected_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """q_j = (1 - p_{j-1}) q_{j-1} + α_{i-1,j},  α_{i,j} = p_j q_j: S steps. Half types are computed in float32."""
    kept = torch.promote_types(choose.dtype, previous.dtype)
    working = torch.promote_types(kept, torch.float32)
    choose, previous = choose.to(working), previous.to(working)
    # `arrived` is q_j (…), the mass that reaches position j; `passed_on` is the part that does not stop there
    passed_on = previous.new_zeros(previous.shape[:-1])
    alignment = []
    for p, start in zip(choose.unbind(-1), previous.unbind(-1), strict=True):
        arrived = passed_on + start
        passed_on = (1 - p) * arrived
        alignment.append(p * arrived)
    return (torch.stack(alignment, -1) if alignment else torch.zeros_like(previous)).to(kept)


def moving_chunk_softmax(
    stops: Float[Tensor, "R H S"],
    energies: Float[Tensor, "R H S"],
    support: Bool[Tensor, "R G S"] | None,
    width: int | None,
) -> Float[Tensor, "R H S"]:
    """β_j = Σ_k α_k softmax(u over the w positions up to k)_j: a softmax for every chunk, S·w numbers."""
    num_positions = energies.shape[-1]
    if isinstance(num_positions, int):  # otherwise a program for any number of them is being exported
        if num_positions == 0:
            return torch.zeros_like(stops)
        width = num_positions if width is None else min(width, num_positions)
    assert width is not None
    allowed = torch.ones_like(energies, dtype=torch.bool) if support is None else support.expand_as(energies)
    # chunks (R, H, S, w): chunk k ends at position k; before the first position nothing is allowed
    before = (width - 1, 0)
    chunks = torch.nn.functional.pad(energies, before).unfold(-1, width, 1)
    inside = torch.nn.functional.pad(allowed, before).unfold(-1, width, 1)
    mass = stops[..., None] * masked_softmax(chunks, inside)
    # entry i of chunk k is position j = k - (w - 1) + i, so β_j sums mass[j + (w - 1) - i, i] over i
    after = torch.nn.functional.pad(mass, (0, 0, 0, width - 1))
    return sum(
        (after[..., width - 1 - i : width - 1 - i + num_positions, i] for i in range(width)),
        start=torch.zeros_like(stops),
    )
