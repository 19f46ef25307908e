"""A loss that two decoders of one sentence attend alike."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.losses.cells import mean_over, real_cells, real_weights
from regard.shapes import Bool, Float, describe


def alignment_consistency(
    alignments: Float[Tensor, "B H T S"],
    coarse: Float[Tensor, "B H N S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
    *,
    num_frames: int = 1,
    coarse_frames: int = 6,
) -> Float[Tensor, ""]:
    """The mean over real cells and heads of |α_tj - β_nj|, n the coarse step in which the frames of step t are said.

    "Double-decoder consistency": a second decoder that makes more frames in a step aligns sooner, and the first learns
    to attend as it does. n = ⌊t r / r₂⌋, so padding changes nothing.

    Args:
        alignments: α of the decoder with r frames in a step.
        coarse: β of the decoder with r₂ frames in a step; N ≥ T r / r₂.
        source_mask, target_mask: of the source's positions and of the first decoder's steps.
        num_frames, coarse_frames: r and r₂.

    Returns:
        0-d, in float32 or wider; 0 when no cell is real.

    Raises:
        ShapeError: for alignments that do not fit together, or too few coarse steps.

    Source: Coqui TTS (Gölge 2020, Solving attention problems of TTS models with double decoder consistency).

    >>> fine = torch.eye(4)[None, None]
    >>> alignment_consistency(fine, fine[:, :, [0, 2]], num_frames=1, coarse_frames=2)
    tensor(0.2500)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    steps = torch.arange(alignments.shape[2], device=alignments.device) * num_frames // coarse_frames
    short = len(steps) > 0 and int(steps[-1]) >= coarse.shape[2] if coarse.dim() == 4 else True
    if short or coarse.shape[:2] != alignments.shape[:2] or coarse.shape[3] != alignments.shape[3]:
        raise ShapeError(
            f"coarse must be (B, H, N, S) with N ≥ T·r/r₂, r={num_frames} and r₂={coarse_frames} frames a step.\n"
            + describe({"alignments": ("B H T S", alignments), "coarse": ("B H N S", coarse)})
        )
    difference = real_weights(alignments, cells) - real_weights(coarse[:, :, steps], cells)
    return mean_over(difference.abs().sum(), cells.sum() * alignments.shape[1])
