"""The largest entries by a selection (`topk`); it branches on values, and so cannot be traced."""

from __future__ import annotations

from math import inf

from torch import Tensor


def largest(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As the operation. A full sort is paid for only where equal finite entries lie on both sides of the cut."""
    if without is None:
        return _largest(values, count)
    # one more than `count`, so that there are enough when `without` is among them
    top, indices = _largest(values, count + 1)
    best, order = _largest(top.masked_fill(indices == without, -inf), count)
    return best, indices.gather(1, order)


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    width = values.shape[1]
    count = min(count, width)
    # one more shows whether the cut goes through equal entries, of which `topk` takes any: then sort, which is stable
    top, indices = values.topk(min(count + 1, width), 1)
    if top.shape[1] > count and bool(((top[:, count - 1] == top[:, count]) & top[:, count].isfinite()).any()):
        top, indices = values.sort(dim=1, descending=True, stable=True)
        return top[:, :count].contiguous(), indices[:, :count].contiguous()
    # equal entries within the selection in the order of their indices: by index first, then stably by value
    indices, order = indices[:, :count].sort(1)
    top, order = top[:, :count].gather(1, order).sort(dim=1, descending=True, stable=True)
    return top, indices.gather(1, order)
