"""Losses of coverage: against attending twice, and for attending everywhere."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from regard.losses.cells import mean_over, real_cells, real_weights
from regard.shapes import Bool, Float


def coverage_loss(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, ""]:
    """The mean over real steps and heads of Σ_j min(α_tj, c_tj), c_t = Σ_{t' < t} α_t': against attending twice.

    The first step has c_1 = 0 and costs nothing; every step costs at most 1.

    Returns:
        0-d, in float32 or wider; 0 when no cell is real.

    Source: See, Liu & Manning 2017 (arXiv 1704.04368), equation 12.

    >>> coverage_loss(torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]))
    tensor(0.2500)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    weights = real_weights(alignments, cells)
    covered = weights.cumsum(2)
    before = torch.cat([torch.zeros_like(weights[:, :, :1]), covered[:, :, :-1]], 2)
    return mean_over(torch.minimum(weights, before).sum(), cells.any(2).sum() * alignments.shape[1])


def doubly_stochastic(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
    *,
    rate: float | None = 1.0,
    positions: Literal["sum", "mean"] = "sum",
) -> Float[Tensor, ""]:
    """The mean over sentences and heads of Σ_j (τ - Σ_t α_tj)²: the total weight of every position should be τ.

    arctic-captions sums over all steps, including padding; here only real steps count. The caller multiplies by λ.

    Args:
        rate: τ; None for T_b / S_b of each sentence, which weights that sum to 1 can reach.
        positions: their `sum`, as in the paper and in arctic-captions, or the `mean` over a sentence's real positions,
            as in sgrvinod's tutorial.

    Returns:
        0-d, in float32 or wider; 0 when no cell is real.

    Source: Xu et al. 2015 (arXiv 1502.03044), section 4.2.1.

    >>> doubly_stochastic(torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]))
    tensor(2.)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    total = real_weights(alignments, cells).sum(2)
    source, steps = cells.any(1)[:, None], cells.any(2).sum(1)[:, None, None]
    target = steps.to(total.dtype) / source.sum(2, keepdim=True).clamp(min=1) if rate is None else rate
    squares = (target - total).masked_fill(~source, 0).square()
    if positions == "mean":
        squares = squares / source.sum(2, keepdim=True).clamp(min=1)
    return mean_over(squares.sum(), source.any(2).sum() * alignments.shape[1])
