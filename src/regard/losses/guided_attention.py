"""A loss that guides attention to the diagonal."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.losses.cells import mean_over, real_cells, real_weights
from regard.shapes import Bool, Float


def guided_attention(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
    *,
    width: float = 0.2,
    missing: float = 0.0,
) -> Float[Tensor, ""]:
    """The mean over real cells and heads of α_tj W_tj, with W_tj = 1 - exp(-(j/S_b - t/T_b)² / 2g²).

    S_b and T_b are the lengths of each sentence, so padding changes nothing. A model that predicts several frames per
    step gives the mask of the steps. The loss suits speech synthesis, whose alignments are nearly diagonal.

    Args:
        alignments: (B, H, T, S) as decoders return them; `alignments[:, :2]` guides only two of the heads.
        width: g; 0.2 in the paper. ESPnet and Coqui have 0.4, and multiply the loss by a weight.
        missing: W of what the weights of a step lack to 1. With 0, as published, a mechanism whose weights may vanish
            (a mixture beyond the last position, a monotonic reader that never stops) gains most by attending to
            nothing; with 1, nowhere is farther than any position.

    Returns:
        0-d, in float32 or wider; 0 when no cell is real.

    Source: Tachibana, Uenoyama & Aihara 2018 (arXiv 1710.08969), section 4.1 (their n, t are our j, t; A is αᵀ).

    >>> diagonal = torch.eye(5)[None, None]
    >>> guided_attention(diagonal), guided_attention(diagonal.flip(-1))
    (tensor(0.), tensor(0.1491))
    """
    if width <= 0:
        raise ValueError(f"width={width} must be above 0.")
    if missing < 0:
        raise ValueError(f"missing={missing} must be at least 0.")
    cells = real_cells(alignments, source_mask, target_mask)
    weights = real_weights(alignments, cells)
    source, target = cells.any(1), cells.any(2)
    distance = _relative(source, weights.dtype)[:, None] - _relative(target, weights.dtype)[:, :, None]
    penalty = -torch.expm1(-distance.square() / (2 * width**2))
    total = (weights * penalty[:, None]).sum()
    if missing:
        lacking = (1 - weights.sum(3)).clamp(min=0)  # (B, H, T)
        total = total + missing * (lacking * target[:, None]).sum()
    return mean_over(total, cells.sum() * alignments.shape[1])


def _relative(mask: Bool[Tensor, "B N"], dtype: torch.dtype) -> Float[Tensor, "B N"]:
    """The number of real positions before each one, divided by their total; real positions need not be adjacent."""
    count = mask.cumsum(1).to(dtype)
    return (count - 1) / count[:, -1:].clamp(min=1)
