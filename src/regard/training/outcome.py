"""The outcome of a finished run, and the state of any run."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from regard.errors import DataError, counted
from regard.files import replace_text
from regard.training.checkpoint import Checkpoints

StopReason = Literal["epochs", "max_steps", "early_stopping", "interrupted"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run.

    Args:
        steps: optimiser steps made.
        epochs: completed passes over the data.
        best: the best value of the selected metric; None if there was no validation.
        best_step: the step of that validation.
        stop_reason: only an "interrupted" run can be resumed.
        seconds: seconds of training, including those before interruptions.
        metrics: of the model in the run folder.
        weights: the steps of the validations whose weights are averaged in that model; a single step without a mean, or
            if the mean was no better than the best validation.
        signal: the number of the signal that interrupted the run, if any; the exit status is 128 more.
    """

    steps: int
    epochs: int
    best: float | None
    best_step: int | None
    stop_reason: StopReason
    seconds: float
    metrics: dict[str, float] = field(default_factory=dict)
    weights: list[int] = field(default_factory=list)
    signal: int | None = None

    @property
    def ended(self) -> str:
        """The message that the run has ended, with the key that ended it."""
        return f"this run has already ended, after {counted(self.steps, 'step|steps')} (training.{self.stop_reason})."

    def write(self, folder: Path) -> None:
        """Marks a run folder as finished."""
        replace_text(_path(folder), json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        """The outcome of a finished run, else None."""
        path = _path(folder)
        if not path.exists():
            return None
        try:
            outcome = cls(**json.loads(path.read_text(encoding="utf-8")))
            if not all(isinstance(number, int) for number in (outcome.steps, outcome.epochs, *outcome.weights)):
                raise TypeError("steps, epochs and weights must be whole numbers")
            if not isinstance(outcome.metrics, dict) or outcome.stop_reason not in get_args(StopReason):
                raise TypeError("metrics or stop_reason is not valid")
            return outcome
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{path}: not the outcome of a run ({error}).\n"
                "  Remove the file, and repeat the command, which finishes the run again."
            ) from error


@dataclass(frozen=True, slots=True)
class RunState:
    """The progress of a run, finished or not."""

    step: int
    epoch: int
    finished: bool


def read_state(folder: Path) -> RunState | None:
    """The progress of the run of a folder; None without a run or a first checkpoint."""
    outcome = Outcome.read(folder)
    if outcome is not None:
        return RunState(outcome.steps, outcome.epochs, finished=True)
    checkpoints = Checkpoints(folder)
    if checkpoints.latest is None:
        return None
    return RunState(checkpoints.latest, int(checkpoints.progress(checkpoints.latest)["epoch"]), finished=False)


def reopen(folder: Path) -> None:
    """Lets a finished run continue to the later end of its configuration."""
    _path(folder).unlink(missing_ok=True)


def _path(folder: Path) -> Path:
    return folder / "outcome.json"
