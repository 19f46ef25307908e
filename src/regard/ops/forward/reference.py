"""The plain formula."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.ops.logarithm import safe_log, widen
from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float


def move_on(previous: Float[Tensor, "R H S"], move: Float[Tensor, "R H"]) -> Float[Tensor, "R H S"]:
    """m_n = (1 - u) α_{i-1,n} + u α_{i-1,n-1}: what stays, and what comes from one position before.

    >>> move_on(torch.tensor([[[0.5, 0.5, 0.0]]]), torch.tensor([[0.25]]))
    tensor([[[0.3750, 0.5000, 0.1250]]])
    """
    moved = torch.nn.functional.pad(previous, (1, 0))[..., :-1]
    return (1 - move[..., None]) * previous + move[..., None] * moved


def forward_step(
    energies: Float[Tensor, "R H S"],
    previous: Float[Tensor, "R H S"],
    move: Float[Tensor, "R H"],
    support: Bool[Tensor, "R G S"] | None,
    floor: float = 0.0,
) -> tuple[Float[Tensor, "R H S"], Float[Tensor, "R H S"]]:
    """The weights, and the alignment afterwards, as `ops.forward.forward_step`."""
    working = torch.promote_types(energies.dtype, torch.float32)
    # log m (R, H, S): -∞ where the row cannot be, and no gradient there
    reach = safe_log(move_on(widen(previous).to(working), move.to(working)) + floor)
    reached = ~reach.isneginf()
    if support is not None:
        reached = reached & support
    # a row that can be nowhere in its support begins anew: softmax(e) over the support, without log m
    anew = ~reached.any(-1, keepdim=True)
    allowed = reached | (anew if support is None else anew & support)
    weights = masked_softmax(energies.to(working) + reach.masked_fill(anew, 0.0), allowed)
    weights = weights.to(torch.promote_types(energies.dtype, previous.dtype))
    return weights, torch.where(weights.any(-1, keepdim=True), weights, previous)
