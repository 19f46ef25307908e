"""Dropout of the features of cells that does not depend on the other images of a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers.dropout import drop, drops
from regard.shapes import Float

COLUMN_BITS = 10
"""Cells are counted by y · 2^10 + x, which does not depend on the batch's width as y · w + x does."""


def drop_cells(dropout: nn.Module, x: Float[Tensor, "B F h w"]) -> Float[Tensor, "B F h w"]:
    """Drops features of cells; by item (`layers.items.drawing`) an image's masks are the same in any batch."""
    if not drops(dropout):
        return x
    (batch, _, height, width), device = x.shape, x.device
    rows = torch.arange(batch, device=device).repeat_interleave(height * width)
    y = torch.arange(height, device=device)[:, None] << COLUMN_BITS
    positions = (y + torch.arange(width, device=device)).flatten().repeat(batch)
    pixels = x.permute(0, 2, 3, 1)
    return drop(dropout, pixels.flatten(0, 2), where=(rows, positions)).view_as(pixels).permute(0, 3, 1, 2)
