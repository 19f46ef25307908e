"""The largest entries of rows, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import refuse_gradients, refuse_kernels, refuse_numba, refuse_types
from regard.ops.largest import reference, selection
from regard.shapes import Float, Int

MODULE = "regard.ops.largest.numba"
MAX_COUNT = 128
"""From so many on the kernel's insertions cost more than a sort."""


def _refuse(values: Any = None, count: int = 1, without: int | None = None) -> str | None:
    if values is not None and min(count, values.shape[1]) >= MAX_COUNT:
        return f"{count} of {values.shape[1]} entries are found faster by a sort"
    return refuse_kernels(values) or refuse_numba(MODULE, values) or refuse_types(values) or refuse_gradients(values)


def _refuse_selection(*inputs: Any, **options: Any) -> str | None:
    return refuse_kernels(*inputs[:1])


LARGEST = (
    Implementation("numba", loaded(MODULE, "largest"), _refuse),
    Implementation("selection", selection.largest, _refuse_selection),
    Implementation("reference", reference.largest),
)


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
