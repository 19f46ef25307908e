"""The largest entries of rows, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import torch
from torch import Tensor

from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import device_reason, gradient_reason, kernel_reason, numba_reason, type_reason
from regard.shapes import Float, Int

MODULE = "regard.ops.kernels.largest"
MAX_COUNT = 128
"""From this count on a sort is faster than the kernel's insertions."""


def largest(
    values: Float[Tensor, "R N"], count: int, without: int | None = None
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """The `count` largest entries of each row (all, if there are fewer) and their indices, largest first.

    Among equal entries the first come first, except that any of several -inf may be chosen. NaN is larger than all.

    Args:
        without: the index of a column whose entry counts as -inf.

    >>> import torch
    >>> largest(torch.tensor([[1.0, 3.0, 1.0, 1.0]]), 2)
    (tensor([[3., 1.]]), tensor([[1, 0]]))
    """
    return choose(LARGEST, values, count).function(values, count, without)


def _unsupported_reason(values: Any = None, count: int = 1, without: int | None = None) -> str | None:
    if values is not None and min(count, values.shape[1]) >= MAX_COUNT:
        return f"a sort is faster for {count} of {values.shape[1]} entries"
    return kernel_reason(values) or numba_reason(MODULE, values) or type_reason(values) or gradient_reason(values)


def _selection_reason(values: Any = None, *rest: Any, **options: Any) -> str | None:
    return device_reason("cpu", values) or kernel_reason(values)


MIN_WIDTH = 4096
"""The most entries of a row that torch sorts in one kernel on a GPU."""


def _keys_reason(values: Any = None, count: int = 1, without: int | None = None) -> str | None:
    if values is None:
        return None
    if values.device.type == "cpu":
        return "it is for a GPU"
    if count == 1 or values.shape[1] <= MIN_WIDTH or values.element_size() > 4:
        return "for one entry, short rows or 64 bits a maximum or a sort is faster"
    return None


def reference(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As `largest`, by a stable sort; one entry by the maximum, which is the first of equal ones."""
    values = _without(values, without)
    if count == 1 and values.shape[1]:
        return values.max(1, keepdim=True)
    values, indices = values.sort(dim=1, descending=True, stable=True)
    return values[:, :count].contiguous(), indices[:, :count].contiguous()


def _without(values: Tensor, without: int | None) -> Tensor:
    if without is None:
        return values
    values = values.clone()
    values[:, without] = -inf
    return values


def by_keys(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As `largest`, by `topk` of keys of 64 bits that differ in all entries, so that the host reads nothing.

    The upper half of a key are the bits of the float32 as an integer, with all but the sign flipped if it is negative,
    which are in the order of the numbers. The lower half is the index from the end.
    """
    values = _without(values, without)
    # the same bits for all NaN, and for both zeros
    bits = values.float().nan_to_num(nan=nan, posinf=inf, neginf=-inf).add_(0.0).view(torch.int32)
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    width = values.shape[1]
    last = torch.arange(width - 1, -1, -1, device=values.device)
    indices = torch.add(last, order, alpha=1 << 32).topk(min(count, width), 1).indices
    return values.gather(1, indices), indices


def by_selection(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As `largest`, by `topk`, and by a sort only if equal finite entries are on both sides of the cut.

    It branches on values, so that it cannot be traced and would wait for a GPU.
    """
    if without is None:
        return _largest(values, count)
    # one more than `count`, as `without` may be among them
    top, indices = _largest(values, count + 1)
    best, order = _largest(top.masked_fill(indices == without, -inf), count)
    return best, indices.gather(1, order)


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    width = values.shape[1]
    count = min(count, width)
    # one more shows whether the cut goes through equal entries, of which `topk` takes any: then a stable sort
    top, indices = values.topk(min(count + 1, width), 1)
    if top.shape[1] > count and bool(((top[:, count - 1] == top[:, count]) & top[:, count].isfinite()).any()):
        top, indices = values.sort(dim=1, descending=True, stable=True)
        return top[:, :count].contiguous(), indices[:, :count].contiguous()
    # sorted by index, then stably by value, so that equal entries are in the order of their indices
    indices, order = indices[:, :count].sort(1)
    top, order = top[:, :count].gather(1, order).sort(dim=1, descending=True, stable=True)
    return top, indices.gather(1, order)


LARGEST = (
    Implementation("numba", loaded(MODULE, "largest"), _unsupported_reason),
    Implementation("selection", by_selection, _selection_reason),
    Implementation("keys", by_keys, _keys_reason),
    Implementation("reference", reference),
)
