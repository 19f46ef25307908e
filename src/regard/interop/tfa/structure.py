"""Structures of tensors as `tf.nest` has them, and `TensorArray`, a leaf of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.shapes import describe


@dataclasses.dataclass(frozen=True, slots=True)
class TensorArray:
    """The tensors of the steps so far, one per step; `write` returns a new array.

    In a state it is one leaf, which `dynamic_decode` and `BeamSearchDecoder` pass on unchanged, whichever items finish
    and hypotheses continue.

    Args:
        steps: tensors of one shape.

    >>> array = TensorArray().write(0, torch.zeros(2)).write(1, torch.ones(2))
    >>> array.size(), array.stack()
    (2, tensor([[0., 0.],
            [1., 1.]]))
    """

    steps: tuple[Tensor, ...] = ()

    def write(self, index: int, value: Tensor) -> TensorArray:
        """The array with a tensor appended, or replaced.

        Raises:
            ShapeError: for an index beyond the end.
        """
        if not 0 <= index <= len(self.steps):
            raise ShapeError(f"index must be from 0 to {len(self.steps)}, the number of steps; got {index}.")
        return TensorArray((*self.steps[:index], value, *self.steps[index + 1 :]))

    def read(self, index: int) -> Tensor:
        """The tensor of a step."""
        return self.steps[index]

    def size(self) -> int:
        """The number of steps."""
        return len(self.steps)

    def stack(self) -> Tensor:
        """(T, …), all steps.

        Raises:
            ShapeError: if there are none.
        """
        if not self.steps:
            raise ShapeError("The array has no steps yet; take one first.")
        return torch.stack(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.steps)


def map_structure(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """Applies a function to the leaves of a structure, or of several of the same form.

    Nodes are tuples, lists, dicts and dataclasses; leaves are all other values, and tensor arrays. None stays None.

    >>> map_structure(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    if structure is None:
        return None
    if isinstance(structure, Tensor | TensorArray):
        return function(structure, *others)
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        names = [field.name for field in dataclasses.fields(structure)]
        parts = {
            name: map_structure(function, getattr(structure, name), *(getattr(o, name) for o in others))
            for name in names
        }
        return dataclasses.replace(structure, **parts)
    if isinstance(structure, dict):
        return {key: map_structure(function, value, *(o[key] for o in others)) for key, value in structure.items()}
    if isinstance(structure, tuple | list):
        mapped = [map_structure(function, value, *(o[i] for o in others)) for i, value in enumerate(structure)]
        return type(structure)(*mapped) if hasattr(structure, "_fields") else type(structure)(mapped)
    return function(structure, *others)


def flatten(structure: Any) -> list[Any]:
    """The leaves of a structure, in order.

    >>> flatten((1, {"a": [2, None]}))
    [1, 2]
    """
    leaves: list[Any] = []
    map_structure(leaves.append, structure)
    return leaves


def carry(finished: Tensor, old: Any, new: Any) -> Any:
    """The old state in rows that have finished, the new state in the others; scalars and tensor arrays are new.

    Args:
        finished: (R,) bool.
    """

    def chosen(after: Any, before: Any) -> Any:
        if not isinstance(after, Tensor) or not after.dim():
            return after
        return torch.where(_broadcast(finished, after), before, after)

    return map_structure(chosen, new, old)


def cleared(values: Tensor, over: Tensor) -> Tensor:
    """Zeros where `over`, of the leading axes of the values, is True."""
    return values.masked_fill(_broadcast(over, values), 0)


def _broadcast(mask: Tensor, values: Tensor) -> Tensor:
    return mask[(..., *[None] * (values.dim() - mask.dim()))]


def checked_lengths(lengths: Tensor | Sequence[int], rows: int, steps: int, like: Tensor) -> Tensor:
    """The lengths of sequences (B,), from 0 to T, as long integers on the device of a tensor.

    Raises:
        ShapeError: for another shape, type or range.
    """
    lengths = torch.as_tensor(lengths, device=like.device)
    if lengths.shape != (rows,) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ShapeError(
            f"sequence_length must be (B={rows},) integers, the number of steps of each sequence.\n"
            + describe({"sequence_length": ("B", lengths)})
        )
    if rows and (int(lengths.min()) < 0 or int(lengths.max()) > steps):
        raise ShapeError(
            f"sequence_length must lie between 0 and T={steps}; got {int(lengths.min())} to {int(lengths.max())}."
        )
    return lengths.long()
