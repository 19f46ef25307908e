"""The interface between a task and the training loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import RegardError

LOOP_METRICS = frozenset({"loss", "count", "learning_rate", "gradient_norm", "skipped_steps"})


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of one batch.

    Args:
        total: 0-d and differentiable: the sum over the real symbols of the batch; log-probabilities in nats.
        count: the number of those symbols; the loop divides by their sum over all batches of a step.
        metrics: further sums over the batch, by name; divided by the count before they are logged.
    """

    total: Tensor
    count: Tensor | int
    metrics: Mapping[str, Tensor | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clash = LOOP_METRICS.intersection(self.metrics)
        if clash:
            raise RegardError(
                f"A metric of the loss may not be named {min(clash)!r}, which the training loop logs itself."
            )


@dataclass(frozen=True, slots=True)
class Milestone:
    """A result that validations should reach by a step; training warns once if they do not, although the loss falls.

    Args:
        step: the last step.
        is_reached: whether this validation reaches it.
        state: of this validation, a clause such as `boundaries are 80 ms from the labels`.
        advice: what to try, in sentences.
    """

    step: int
    is_reached: bool
    state: str
    advice: str


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of a validation.

    Args:
        metrics: by name. Metrics of free-running decoding have plain names, those with the reference's prefix
            `teacher_forced_...`.
        samples: lines of text to show.
        concern: a sentence about outputs that cannot be right: all empty, or all the same.
        pictures: file names, each with a function that writes the picture to a path.
        focus: for attention with several heads, the highest focus rate of a head; the metrics have that of the mean of
            heads, which may be spread although each head is sharp.
        alignment: whether an alignment has formed, for tasks with a better criterion than the focus rate.
    """

    metrics: Mapping[str, float]
    samples: Sequence[str] = ()
    pictures: Sequence[tuple[str, Callable[[Path], object]]] = ()
    concern: str | None = None
    focus: float | None = None
    alignment: Milestone | None = None


class Trainee(Protocol):
    """A model with its data and its loss.

    `module.state_dict()` is the only state between steps; everything else is a pure function of the arguments, so that
    a killed run resumes bit for bit.
    """

    @property
    def module(self) -> nn.Module:
        """The module to train. The loop moves it to the device and sets training or evaluation mode."""

    def descriptions(self, epoch: int) -> Sequence[Any]:
        """Small descriptions of the epoch's batches, such as arrays of indices: a pure function of seed and epoch."""

    def batch(self, description: Any) -> Any:
        """The tensors of one batch, on the CPU: a tree (`regard.tree`) or an object with `.to(device)`.

        A pure function, called in another thread before the batch is used.
        """

    def loss(self, batch: Any, *, step: int, generator: torch.Generator) -> Loss:
        """The loss of a batch that is on the module's device.

        Args:
            batch: the result of `batch`, on the module's device.
            step: optimiser steps made before this one.
            generator: on the module's device; the loss draws only from it and from torch's global generator.
        """

    def validate(self) -> Validation:
        """Decodes held-out data free-running; called in evaluation mode and without gradients.

        Its random draws do not change those of training.
        """

    def save(self, folder: Path) -> None:
        """Writes the files for prediction into an empty folder: `model.safetensors`, configuration, vocabularies."""


@runtime_checkable
class PlacedTrainee(Trainee, Protocol):
    """A trainee that knows file and line of its items."""

    def places(self, description: Any) -> Sequence[str]:
        """File and line of each item of a batch."""


@runtime_checkable
class ConcludingTrainee(Trainee, Protocol):
    """A trainee that adds to its model when its final weights stand."""

    def conclude(self) -> str | None:
        """Called once before the final model is saved, in all processes, in evaluation mode and without gradients.

        Returns:
            A sentence about it without its full stop. It is a pure function of the weights, so that a run that is
            killed here and continues saves the same model.
        """


@runtime_checkable
class CountingTrainee(Trainee, Protocol):
    """A trainee whose loss is not counted in symbols."""

    @property
    def counted(self) -> str:
        """The unit of `Loss.count`, such as `frames`; the log has `frames_per_second`."""


@runtime_checkable
class DivisibleTrainee(Trainee, Protocol):
    """A trainee whose batches can be divided among processes, and whose random draws belong to items.

    The draws of regard's layers (`regard.layers.Dropout`) and of `feedback_mask` for an item then depend neither on the
    number of processes nor on its batch. `validate` is called in all processes, and may exchange values by
    `regard.training.processes`; the metrics of the first process are used.
    """

    def divide(self, description: Any, count: int) -> Sequence[Any]:
        """The descriptions of at most `count` non-empty parts of a batch, of about equal work."""

    def item_ids(self, description: Any) -> Tensor:
        """(B,) int64: the number of each row's item, the same in every epoch."""


@runtime_checkable
class RecordableTrainee(DivisibleTrainee, Protocol):
    """A trainee whose steps are recorded on a GPU (`regard.ops.recording`); a batch is a tree of tensors."""

    def program(self, step: int) -> Hashable:
        """The key of the loss's operations, which may otherwise depend only on the shapes of the batch.

        Args:
            step: optimiser steps made before this one.

        Raises:
            UnsupportedError: with the reason, if they depend on draws or decisions in Python at every step.
        """

    def padded(self, batch: Any) -> Any:
        """The batch padded to a grid (`regard.training.grid`), with the same loss and gradients."""
