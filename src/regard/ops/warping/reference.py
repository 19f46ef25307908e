"""Dynamic time warping by antidiagonals: what has the same t + u depends only on the two antidiagonals before."""

from __future__ import annotations

import torch
from torch import Tensor

MOVES = ((1, 1), (1, 0), (0, 1))
"""By how much t and u grow, in the order in which equal ones are taken."""


def warping_path(costs: Tensor, lengths: Tensor, other_lengths: Tensor) -> tuple[Tensor, Tensor]:
    """As the operation."""
    batch, num_steps, num_others = costs.shape
    steps = torch.arange(num_steps, device=costs.device)
    infinite = costs.new_full((batch, 1 + num_steps), float("inf"))
    # of antidiagonal d: sums[:, 1 + t] = D(t, d - t), with D = ∞ outside the matrix
    before, last = infinite, infinite.clone()
    moves = torch.zeros(batch, num_steps + num_others - 1, num_steps, dtype=torch.long, device=costs.device)
    for d in range(num_steps + num_others - 1):
        u = d - steps
        inside = (u >= 0) & (u < num_others)
        here = costs[:, steps, u.clamp(0, num_others - 1)]
        options = torch.stack([before[:, :-1], last[:, :-1], last[:, 1:]])  # D(t-1, u-1), D(t-1, u), D(t, u-1)
        best = options.min(0).values
        # `min` does not promise the first of equal ones
        moves[:, d] = (options == best).long().argmax(0)
        sums = infinite.clone()
        sums[:, 1:] = torch.where(inside, here + (best if d else torch.zeros_like(best)), infinite[:, 1:])
        before, last = last, sums
    grow = torch.tensor(MOVES, device=costs.device)
    rows = torch.arange(batch, device=costs.device)
    at = torch.stack([lengths - 1, other_lengths - 1], 1)
    pairs = torch.full((batch, num_steps + num_others - 1, 2), -1, dtype=torch.long, device=costs.device)
    counts = torch.zeros(batch, dtype=torch.long, device=costs.device)
    for i in range(num_steps + num_others - 1):
        real = (at >= 0).all(1)
        pairs[:, i] = torch.where(real[:, None], at, -1)
        counts += real
        t, u = at.clamp(min=0).unbind(1)
        at = torch.where(real[:, None] & (at.sum(1) > 0)[:, None], at - grow[moves[rows, t + u, t]], -1)
    # from the end to the beginning; turned round within each row's number of pairs
    order = (counts[:, None] - 1 - torch.arange(pairs.shape[1], device=costs.device)).clamp(min=0)
    turned = pairs.gather(1, order[..., None].expand_as(pairs))
    padding = torch.arange(pairs.shape[1], device=costs.device) >= counts[:, None]
    return turned.masked_fill(padding[..., None], -1), counts
