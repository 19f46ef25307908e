"""The cells of an image: squares of its pixels, with a mask of those that cover any real pixel.

With a stride s a side of H pixels has ⌈H / s⌉ cells. Cell i covers the pixels s·i … s·i + s - 1, and is real if any of
them is. So padding to the right of an image and below it does not change its real cells, also after several strides:
⌈⌈H / s⌉ / s'⌉ = ⌈H / (s s')⌉.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.errors import ShapeError
from regard.layers.dropout import drop, drops
from regard.shapes import Bool, Float, describe


def cell_mask(mask: Bool[Tensor, "B H W"] | None, stride: int) -> Bool[Tensor, "B h w"] | None:
    """The mask of the cells of a stride: True if they cover any real pixel.

    >>> import torch
    >>> cell_mask(torch.tensor([[[True, True, True, False, False]]]), 2)
    tensor([[[ True,  True, False]]])
    """
    if mask is None or stride == 1:
        return mask
    height, width = mask.shape[1:]
    whole = pad(mask, (0, -width % stride, 0, -height % stride))
    return whole.unflatten(2, (-1, stride)).any(3).unflatten(1, (-1, stride)).any(2)


def without_padding(x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None) -> Float[Tensor, "B C H W"]:
    """x with zeros at padding."""
    return x if mask is None else x.masked_fill(~mask[:, None], 0)


def keep_image_mask(images: Tensor, mask: Tensor | None, channels: int) -> Bool[Tensor, "B H W"] | None:
    """The mask of images, True at real pixels.

    Raises:
        ShapeError: for images that are not (B, C, H, W) with these channels or have no pixels, or a mask of another
            shape or type.
    """
    if images.dim() != 4 or images.shape[1] != channels or not images.is_floating_point():
        raise ShapeError(
            f"images must be (B, C={channels}, H, W), of a floating type.\n" + describe({"images": ("B C H W", images)})
        )
    if 0 in images.shape[2:]:
        raise ShapeError("images must have pixels.\n" + describe({"images": ("B C H W", images)}))
    if mask is None or (mask.shape == (len(images), *images.shape[2:]) and mask.dtype == torch.bool):
        return mask
    shown = describe({"images": ("B C H W", images), "mask": ("B H W", mask)})
    hint = ""
    if mask.shape == (len(images), 1, *images.shape[2:]):
        hint = "\n  The mask has an axis of channels; use mask[:, 0]."
    raise ShapeError(f"mask must be (B, H, W) bool, True at real pixels.\n{shown}{hint}")


COLUMN_BITS = 10
"""Cells are numbered y · 2^10 + x, independently of the width of the batch."""


def drop_cells(dropout: nn.Module, x: Float[Tensor, "B F h w"]) -> Float[Tensor, "B F h w"]:
    """Dropout of features of cells; with draws by item (`layers.items.drawing`) independent of the batch."""
    if not drops(dropout):
        return x
    (batch, _, height, width), device = x.shape, x.device
    rows = torch.arange(batch, device=device).repeat_interleave(height * width)
    y = torch.arange(height, device=device)[:, None] << COLUMN_BITS
    positions = (y + torch.arange(width, device=device)).flatten().repeat(batch)
    pixels = x.permute(0, 2, 3, 1)
    return drop(dropout, pixels.flatten(0, 2), where=(rows, positions)).view_as(pixels).permute(0, 3, 1, 2)
