"""What a task gives to the training loop. The loop knows nothing else: no fields, no vocabularies, no text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import RegardError

RESERVED = frozenset({"loss", "count", "learning_rate", "gradient_norm", "skipped_steps"})


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of one batch.

    Args:
        total: 0-d, differentiable: the sum over the real symbols of the batch, in natural logarithms where it is one.
        count: the number of those symbols; the loop divides by it, over all batches of a step.
        metrics: further sums over the batch, by name; each is divided by the count before it is logged.
    """

    total: Tensor
    count: Tensor | int
    metrics: Mapping[str, Tensor | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clash = RESERVED.intersection(self.metrics)
        if clash:
            raise RegardError(f"A metric of the loss may not be called {min(clash)!r}: the loop logs that itself.")


@dataclass(frozen=True, slots=True)
class Validation:
    """What a validation found.

    Args:
        metrics: by name. Figures of free-running decoding have plain names; what was computed with the gold prefix
            is called `teacher_forced_...`, so that nobody mistakes one for the other.
        samples: lines of text to show.
        concern: a sentence if the outputs are such that the model cannot be right, as none at all or always the same.
        pictures: file names, each with a function that writes the picture to the path it is given.
    """

    metrics: Mapping[str, float]
    samples: Sequence[str] = ()
    pictures: Sequence[tuple[str, Callable[[Path], None]]] = ()
    concern: str | None = None


class Trainee(Protocol):
    """A model with its data and its loss.

    Everything that persists from one step to the next is in `module.state_dict()`: the rest is a pure function of the
    arguments, so that a run that was killed continues bit for bit.
    """

    @property
    def module(self) -> nn.Module:
        """What is trained. The loop moves it to the device and sets train and evaluation mode."""
        ...

    def plan(self, epoch: int) -> Sequence[Any]:
        """The epoch's batches as light descriptions, such as arrays of indices: a pure function of seed and epoch."""
        ...

    def batch(self, description: Any) -> Any:
        """The tensors of one batch, on the CPU: a tree (`regard.tree`) or an object with `.to(device)`.

        Pure, and called from another thread, some batches ahead of their use.
        """
        ...

    def loss(self, batch: Any, *, step: int, generator: torch.Generator) -> Loss:
        """The loss of a batch that is on the module's device.

        Args:
            batch: what `batch` returned, moved.
            step: optimiser steps made before this one.
            generator: on the module's device; every draw of the loss comes from it or from torch's global generator.
        """
        ...

    def validate(self) -> Validation:
        """Free-running decoding of held-out data, called in evaluation mode and without gradients.

        Its random draws leave those of training as they were.
        """
        ...

    def save(self, folder: Path) -> None:
        """Writes all that prediction needs into an empty folder: `model.safetensors`, configuration, vocabularies."""
        ...


@runtime_checkable
class DivisibleTrainee(Trainee, Protocol):
    """A trainee whose batches several processes can share, and whose random draws belong to items.

    Then neither the number of processes nor the batch that an item is in changes what is drawn for it, in the layers of
    regard (`regard.layers.Dropout`) and in `feedback_mask`. In several processes `validate` is called in all of them at
    once; what it needs of the others it takes from `regard.training.processes`. The first one's figures count.
    """

    def divide(self, description: Any, count: int) -> Sequence[Any]:
        """A batch in at most `count` parts of about the same work, none of them empty: descriptions for `batch`."""
        ...

    def item_ids(self, description: Any) -> Tensor:
        """(B,) int64: which item each row of a batch is, the same in every epoch."""
        ...
