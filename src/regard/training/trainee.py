"""The interface between a task and the training loop, which knows nothing of fields, vocabularies or texts."""

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
                f"A metric of the loss may not be called {min(clash)!r}: the loop logs its own value of that name."
            )


@dataclass(frozen=True, slots=True)
class Milestone:
    """What validations should have shown by a step; training says once if they have not, although the loss falls.

    Args:
        step: the step by which.
        is_reached: whether this validation shows it.
        state: what it shows, a part of a sentence, such as `boundaries are 80 ms from the labels`.
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
        metrics: by name. Metrics of free-running decoding have plain names; those computed with the reference's prefix
            are called `teacher_forced_...`, so that they cannot be confused.
        samples: lines of text to show.
        concern: a sentence, if the outputs show that the model cannot be right: all empty, or all the same.
        pictures: file names, each with a function that writes the picture to a path.
        focus: of attention with several heads, the focus rate of the head that has the highest; that of the metrics is
            of the mean of heads, which is spread although each may be sharp.
        alignment: whether an alignment has formed, of a task that knows better than by the focus rate.
    """

    metrics: Mapping[str, float]
    samples: Sequence[str] = ()
    pictures: Sequence[tuple[str, Callable[[Path], object]]] = ()
    concern: str | None = None
    focus: float | None = None
    alignment: Milestone | None = None


class Trainee(Protocol):
    """A model with its data and its loss.

    Everything that persists from one step to the next is in `module.state_dict()`; all else is a pure function of the
    arguments, so that a killed run resumes bit for bit.
    """

    @property
    def module(self) -> nn.Module:
        """The module to train. The loop moves it to the device and sets training or evaluation mode."""

    def descriptions(self, epoch: int) -> Sequence[Any]:
        """Small descriptions of the epoch's batches, such as arrays of indices: a pure function of seed and epoch."""

    def batch(self, description: Any) -> Any:
        """The tensors of one batch, on the CPU: a tree (`regard.tree`) or an object with `.to(device)`.

        It has to be pure, and is called in another thread some batches ahead of their use.
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
        """Writes what prediction needs into an empty folder: `model.safetensors`, configuration, vocabularies."""


@runtime_checkable
class PlacedTrainee(Trainee, Protocol):
    """A trainee that knows where its items stand."""

    def places(self, description: Any) -> Sequence[str]:
        """File and line of each item of a batch."""


@runtime_checkable
class CountingTrainee(Trainee, Protocol):
    """A trainee whose loss is counted by something else than symbols."""

    @property
    def counted(self) -> str:
        """What `Loss.count` counts, such as `frames`; the log has `frames_per_second`."""


@runtime_checkable
class DivisibleTrainee(Trainee, Protocol):
    """A trainee whose batches can be divided among processes, and whose random draws belong to items.

    What regard's layers (`regard.layers.Dropout`) and `feedback_mask` draw for an item then depends neither on the
    number of processes nor on the batch that the item is in. `validate` is called in all processes at once, and may
    exchange values by `regard.training.processes`; the metrics of the first process count.
    """

    def divide(self, description: Any, count: int) -> Sequence[Any]:
        """Divides a batch into at most `count` parts of about equal work, none empty: descriptions for `batch`."""

    def item_ids(self, description: Any) -> Tensor:
        """(B,) int64: the item of each row of a batch, with the same number in every epoch."""


@runtime_checkable
class RecordableTrainee(DivisibleTrainee, Protocol):
    """A trainee whose steps are recorded on a GPU (`regard.ops.recording`); a batch is a tree of tensors."""

    def program(self, step: int) -> Hashable:
        """What the operations of the loss depend on, besides the shapes of the batch.

        Args:
            step: optimiser steps made before this one.

        Raises:
            UnsupportedError: with the reason, if they depend on what is drawn or decided anew at every step.
        """

    def padded(self, batch: Any) -> Any:
        """The batch with sizes on a grid (`regard.training.grid`), whose loss and gradients are the same."""
