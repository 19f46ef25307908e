"""The cells of an alignment that count: those of real target steps and real source positions."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.shapes import Bool, Float, describe


def real_cells(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None,
    target_mask: Bool[Tensor, "B T"] | None,
) -> Bool[Tensor, "B T S"]:
    """True where both the target step and the source position are real.

    Raises:
        ShapeError: for alignments that are not (B, H, T, S), or masks of another size or type.
    """
    shown = {"alignments": ("B H T S", alignments)}
    if alignments.dim() != 4 or not alignments.is_floating_point():
        raise ShapeError("alignments must be (B, H, T, S) numbers; H is 1 for a single head.\n" + describe(shown))
    batch, _, steps, positions = alignments.shape
    cells = alignments.new_ones(batch, steps, positions, dtype=torch.bool)
    for name, mask, letters, width in (
        ("source_mask", source_mask, "B S", positions),
        ("target_mask", target_mask, "B T", steps),
    ):
        if mask is None:
            continue
        if mask.shape != (batch, width) or mask.dtype != torch.bool:
            raise ShapeError(
                f"{name} must be ({letters.replace(' ', ', ')}) bool, True at real positions.\n"
                + describe(shown | {name: (letters, mask)})
            )
        cells = cells & (mask[:, None] if letters == "B S" else mask[:, :, None])
    return cells


def real_weights(alignments: Float[Tensor, "B H T S"], cells: Bool[Tensor, "B T S"]) -> Float[Tensor, "B H T S"]:
    """Weights in float32 or wider, 0 outside the real cells, whatever they hold."""
    working = alignments.to(torch.promote_types(alignments.dtype, torch.float32))
    return working.masked_fill(~cells[:, None], 0)


def mean_over(total: Float[Tensor, ""], count: Tensor | int) -> Float[Tensor, ""]:
    """total / count, or 0 if count is 0."""
    return total / torch.as_tensor(count, device=total.device).clamp(min=1)
