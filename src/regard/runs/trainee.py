"""Base classes of the trainees of all tasks: a model with its training data, for the training loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.config.schema import FeedbackConfig
from regard.data.text import UNKNOWN
from regard.errors import DataError
from regard.layers import items
from regard.metrics.bootstrap import ItemTerms
from regard.runs.contract import AnyEvaluation
from regard.runs.store import save
from regard.shapes import Bool, Int
from regard.training import Trainee
from regard.training.feedback import feedback_program
from regard.training.grid import padded

Draw = Callable[[Path], object]
"""Draws a picture into a file."""
WORD_DROPOUT = 0x3012D5
"""The number of this place in draws by item, where modules have their own numbers."""


class AbstractTrainee(Trainee):
    """A model with its data. A task adds its batches, its loss and its validation."""

    model: Any
    concluded: AnyEvaluation | None = None
    """The evaluation to which confidences were fitted, once the final weights stand."""

    @property
    def module(self) -> Any:
        return self.model.module

    @property
    def config(self) -> Any:
        """The configuration of the model."""
        return self.model.config

    @property
    @abstractmethod
    def examples(self) -> Iterable[str]:
        """Held-out inputs, as arguments of `regard predict`."""

    def save(self, folder: Path) -> None:
        save(self.model, folder)

    def calibration_items(self) -> AnyEvaluation | None:
        """The evaluation of held-out items to which confidences are fitted, with the search of predictions; None of
        models without confidences."""
        return None

    def held_out_terms(self) -> ItemTerms | None:
        """What each held-out item adds to the metrics of the final model; None if there are no such items."""
        return None if self.concluded is None else self.model.item_terms(self.concluded)

    def conclude(self) -> str | None:
        """Fits the temperatures of confidences to held-out items."""
        self.model.calibration = None
        evaluation = self.concluded = self.calibration_items()
        if evaluation is None:
            return None
        try:
            self.model.calibration = self.model.calibrate(evaluation)
        except DataError as error:
            return f"Confidences are not calibrated: {str(error).removesuffix('.')}"
        return f"Confidences are calibrated: {self.model.calibration}"

    def on_device(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a batch on the device of the model."""
        return {name: tensor.to(self.model.device) for name, tensor in batch.items()}


def numbered_pictures(draws: Iterable[Draw | None]) -> list[tuple[str, Draw]]:
    """The pictures of a validation, with the numbers of their samples; samples without a picture are None."""
    return [(f"{number:02d}.png", draw) for number, draw in enumerate(draws) if draw is not None]


class AbstractArrayTrainee(AbstractTrainee):
    """A trainee whose descriptions of batches are arrays of indices, so that they can be divided among processes."""

    axes: ClassVar[Mapping[str, str]] = {}
    """The letters of the axes of a batch's tensors that are not rows alone (`regard.training.grid.padded`)."""

    def program(self, step: int) -> Hashable:
        """The form of scheduled sampling at a step; None for tasks without it."""
        training = self.config.training
        return feedback_program(training, step) if isinstance(training, FeedbackConfig) else None

    def padded(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """A batch with sizes on a grid."""
        return padded(batch, self.axes)

    def divide(self, description: Any, count: int) -> Sequence[Any]:
        """Every `count`-th row: rows of a batch have similar lengths, and neighbours the most similar."""
        return [description[number::count] for number in range(min(count, len(description)))]

    def item_ids(self, description: Any) -> Tensor:
        """The indices."""
        return torch.from_numpy(np.asarray(description, dtype=np.int64))

    def first(self) -> dict[str, Tensor]:
        """The first batch of the first epoch with more than one row, or one row twice if there is none."""
        descriptions = self.descriptions(0)
        several = [description for description in descriptions if len(description) > 1]
        return self.on_device(self.batch(several[0] if several else descriptions[0][[0, 0]]))


def without_words(
    ids: Int[Tensor, "B S *W"], mask: Bool[Tensor, "B S *W"], probability: float, generator: torch.Generator
) -> Int[Tensor, "B S *W"]:
    """Ids in which each word is replaced by the unknown one with this probability.

    Where layers draw by item, so does this function.
    """
    if probability == 0:
        return ids
    # the draws of an item follow the order of its words, wherever there is padding between them
    places = mask.flatten(1).cumsum(1).sub_(1).clamp_(min=0)
    draws = items.current()
    if draws is None:
        dropped = torch.rand(places.shape, generator=generator, device=generator.device) < probability
    else:
        dropped = draws.chance(places.shape[1], probability, WORD_DROPOUT).to(mask.device)
    return ids.masked_fill(dropped.gather(1, places).view_as(mask) & mask, UNKNOWN)
