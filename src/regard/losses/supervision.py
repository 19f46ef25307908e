"""Alignments that are known."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.losses.cells import mean_over, real_cells, real_weights
from regard.shapes import Bool, Float, describe


def alignment_supervision(
    alignments: Float[Tensor, "B H T S"],
    known: Tensor,
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, ""]:
    """The mean over supervised steps and heads of -Σ_j α*_tj log α_tj, with α* the known alignment.

    A step without a known alignment is skipped. Attention is not divided by its sum.

    Args:
        alignments: (B, H, T, S); `alignments[:, :1]` to supervise only one head.
        known: (B, T, S) numbers or bool, each step divided by its sum over real positions, so links may be 0 and 1;
            steps of zeros have no supervision. Or (B, T) integers: a position, or below 0 for none; positions that are
            not real count as none, too.

    Numerics: a weight below the smallest normal number of its type counts as that number, without a gradient: the loss
    is finite, but cannot call back weights that are exactly 0 (sparse or hard attention, or a window).

    Returns:
        0-d, in nats, in float32 or wider; 0 when no step is supervised.

    Raises:
        ShapeError: for a known alignment of another shape or type.

    Source: Liu et al. 2016 (arXiv 1609.04186); Chen et al. 2016 (arXiv 1607.01628).

    >>> alignment_supervision(torch.tensor([[[[0.5, 0.5], [0.9, 0.1]]]]), torch.tensor([[1, -1]]))
    tensor(0.6931)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    weights = real_weights(alignments, cells)
    wanted = _distribution(known, alignments, cells).to(weights.dtype)
    smallest = torch.finfo(weights.dtype).tiny
    surprise = -weights.clamp(min=smallest).log()
    supervised = wanted.any(2).sum()
    return mean_over((wanted[:, None] * surprise).sum(), supervised * alignments.shape[1])


def _distribution(known: Tensor, alignments: Tensor, cells: Tensor) -> Tensor:
    """The known alignment (B, T, S), each step with a sum of 1 or 0 over real cells."""
    if known.shape == cells.shape:
        wanted = known.to(torch.promote_types(alignments.dtype, torch.float32)).masked_fill(~cells, 0)
        total = wanted.sum(2, keepdim=True)
        return wanted / total.masked_fill(total == 0, 1)
    if known.shape == cells.shape[:2] and not known.is_floating_point() and known.dtype != torch.bool:
        return (torch.arange(cells.shape[2], device=known.device) == known[..., None]) & cells
    raise ShapeError(
        "known must be (B, T, S) weights, or (B, T) integer positions with -1 for none.\n"
        + describe({"alignments": ("B H T S", alignments), "known": ("B T S", known)})
    )
