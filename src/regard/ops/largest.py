"""The largest entries of rows, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from math import inf
from typing import Any

from torch import Tensor

from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import refuse_gradients, refuse_kernels, refuse_numba, refuse_types
from regard.shapes import Float, Int

MODULE = "regard.ops.kernels.largest"
MAX_COUNT = 128
"""From so many on the kernel's insertions cost more than a sort."""


def largest(
    values: Float[Tensor, "R N"], count: int, without: int | None = None
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """The `count` largest entries of each row (all, if there are fewer) and their indices, largest first.

    Among equal entries the first come first; which of several -inf are chosen is not promised. NaN is larger than all.

    Args:
        without: the index of a column whose entry counts as -inf.

    >>> import torch
    >>> largest(torch.tensor([[1.0, 3.0, 1.0, 1.0]]), 2)
    (tensor([[3., 1.]]), tensor([[1, 0]]))
    """
    return choose(LARGEST, values, count).function(values, count, without)


def _refuse(values: Any = None, count: int = 1, without: int | None = None) -> str | None:
    if values is not None and min(count, values.shape[1]) >= MAX_COUNT:
        return f"{count} of {values.shape[1]} entries are found faster by a sort"
    return refuse_kernels(values) or refuse_numba(MODULE, values) or refuse_types(values) or refuse_gradients(values)


def _refuse_selection(*inputs: Any, **options: Any) -> str | None:
    return refuse_kernels(*inputs[:1])


def reference(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As `largest`, by a stable sort."""
    if without is not None:
        indices = values.new_zeros(values.shape[1]).bool()
        indices[without] = True
        values = values.masked_fill(indices, float("-inf"))
    values, indices = values.sort(dim=1, descending=True, stable=True)
    return values[:, :count].contiguous(), indices[:, :count].contiguous()


def by_selection(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As `largest`, by `topk`, which branches on values and so cannot be traced.

    A full sort is paid for only where equal finite entries lie on both sides of the cut.
    """
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


LARGEST = (
    Implementation("numba", loaded(MODULE, "largest"), _refuse),
    Implementation("selection", by_selection, _refuse_selection),
    Implementation("reference", reference),
)
