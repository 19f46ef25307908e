"""Supervision of attention by reference alignments."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.losses.cells import mean_over, real_cells, real_weights
from regard.shapes import Bool, Float, describe


def alignment_supervision(
    alignments: Float[Tensor, "B H T S"],
    reference: Tensor,
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, ""]:
    """The mean over supervised steps and heads of -Σ_j α*_tj log α_tj, with α* the reference.

    A step without a reference is skipped. The weights are not normalised.

    Args:
        alignments: (B, H, T, S); `alignments[:, :1]` to supervise only one head.
        reference: (B, T, S) numbers or bool; each step is divided by its sum over real positions, so links may be 0 and
            1, and steps of zeros have no reference. Or (B, T) integers: a position, or a number below 0 for none;
            positions that are padding count as none, too.

    Numerics: a weight below the smallest normal number of its type counts as that number, without a gradient: the loss
    is finite, but cannot increase weights that are exactly 0 (sparse or hard attention, or a window).

    Returns:
        0-d, in nats, in float32 or wider; 0 when no step is supervised.

    Raises:
        ShapeError: for a reference of another shape or type.

    Source: Liu et al. 2016 (arXiv 1609.04186); Chen et al. 2016 (arXiv 1607.01628).

    >>> alignment_supervision(torch.tensor([[[[0.5, 0.5], [0.9, 0.1]]]]), torch.tensor([[1, -1]]))
    tensor(0.6931)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    weights = real_weights(alignments, cells)
    target = _distribution(reference, alignments, cells).to(weights.dtype)
    smallest = torch.finfo(weights.dtype).tiny
    surprise = -weights.clamp(min=smallest).log()
    supervised = target.any(2).sum()
    return mean_over((target[:, None] * surprise).sum(), supervised * alignments.shape[1])


def _distribution(reference: Tensor, alignments: Tensor, cells: Tensor) -> Tensor:
    """The reference (B, T, S), each step with a sum of 1 or 0 over real cells."""
    if reference.shape == cells.shape:
        weights = reference.to(torch.promote_types(alignments.dtype, torch.float32)).masked_fill(~cells, 0)
        total = weights.sum(2, keepdim=True)
        return weights / total.masked_fill(total == 0, 1)
    if reference.shape == cells.shape[:2] and not reference.is_floating_point() and reference.dtype != torch.bool:
        return (torch.arange(cells.shape[2], device=reference.device) == reference[..., None]) & cells
    raise ShapeError(
        "reference must be (B, T, S) weights, or (B, T) integer positions with -1 for none.\n"
        + describe({"alignments": ("B H T S", alignments), "reference": ("B T S", reference)})
    )
