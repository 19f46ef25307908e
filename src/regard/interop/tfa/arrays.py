"""One tensor per step, as TensorFlow's TensorArray keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ShapeError


@dataclass(frozen=True, slots=True)
class TensorArray:
    """The tensors of the steps so far, as a value: writing gives another array.

    In a state it is one leaf: `dynamic_decode` and `BeamSearchDecoder` hand it on as it is, whatever finishes and
    whichever hypotheses go on.

    Args:
        steps: tensors of one shape.

    >>> array = TensorArray().write(0, torch.zeros(2)).write(1, torch.ones(2))
    >>> array.size(), array.stack()
    (2, tensor([[0., 0.],
            [1., 1.]]))
    """

    steps: tuple[Tensor, ...] = ()

    def write(self, index: int, value: Tensor) -> TensorArray:
        """The array with another tensor at its end, or in place of one that it has.

        Raises:
            ShapeError: for an index beyond the end.
        """
        if not 0 <= index <= len(self.steps):
            raise ShapeError(f"An array of {len(self.steps)} steps is written at its end or before; got {index}.")
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
