"""Sizes of batches on a grid, so that a GPU sees few forms of them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.nn.functional import pad


def on_grid(size: int) -> int:
    """The next size of the grid: multiples of 8 to 128, then of 16 to 256, of 32 to 512 and so on.

    >>> [on_grid(size) for size in (1, 8, 9, 100, 129, 300)]
    [8, 8, 16, 104, 144, 320]
    """
    step = max(8, 1 << max(size - 1, 1).bit_length() >> 4)
    return -(-size // step) * step


def padded(batch: Mapping[str, Tensor], axes: Mapping[str, str]) -> dict[str, Tensor]:
    """A batch with the sizes of the grid; what is added is 0 or False, at the end of each axis.

    Args:
        axes: the letters of each tensor's axes; an axis that is written as a dot keeps its size, as all but the first
            one of a tensor that is not named.

    >>> import torch
    >>> padded({"ids": torch.ones(3, 9)}, {"ids": "BT"})["ids"].shape
    torch.Size([8, 16])
    """
    result = {}
    for name, x in batch.items():
        letters = axes.get(name, "B" + "." * (x.dim() - 1))
        room = [0 if letter == "." else on_grid(size) - size for letter, size in zip(letters, x.shape, strict=True)]
        result[name] = pad(x, [n for each in reversed(room) for n in (0, each)]) if any(room) else x
    return result
