"""Sizes of batches rounded up to a grid, so that few shapes have to be recorded on a GPU."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.nn.functional import pad


def on_grid(size: int, *, is_coarse: bool = False) -> int:
    """The next size of the grid: multiples of 8 up to 128, of 16 up to 256, of 32 up to 512 and so on.

    Args:
        is_coarse: the grid is 1, 2, 3, 4, 6, 8, 12, 16 and so on, for batches with three axes.

    >>> [on_grid(size) for size in (1, 8, 9, 100, 129, 300)]
    [8, 8, 16, 104, 144, 320]
    >>> [on_grid(size, is_coarse=True) for size in (1, 3, 5, 9, 100)]
    [1, 3, 6, 12, 128]
    """
    octave = 1 << max(size - 1, 1).bit_length()
    step = max(1, octave >> 2) if is_coarse else max(8, octave >> 4)
    return -(-size // step) * step


def padded(batch: Mapping[str, Tensor], axes: Mapping[str, str], *, is_coarse: bool = False) -> dict[str, Tensor]:
    """A batch padded with 0 or False, at the end of each axis, to the sizes of the grid.

    Args:
        axes: the letters of each tensor's axes; an axis written as a dot keeps its size. Of other tensors only the
            first axis is padded.
        is_coarse: as in `on_grid`.

    >>> import torch
    >>> padded({"ids": torch.ones(3, 9)}, {"ids": "BT"})["ids"].shape
    torch.Size([8, 16])
    """
    result = {}
    for name, x in batch.items():
        letters = axes.get(name, "B" + "." * (x.dim() - 1))
        sizes = [
            size if letter == "." else on_grid(size, is_coarse=is_coarse)
            for letter, size in zip(letters, x.shape, strict=True)
        ]
        room = [size - before for size, before in zip(sizes, x.shape, strict=True)]
        result[name] = pad(x, [n for each in reversed(room) for n in (0, each)]) if any(room) else x
    return result
