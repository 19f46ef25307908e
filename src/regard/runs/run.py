"""The result of a training: its outcome, its folder, its model and its validations."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from regard.runs.store import load
from regard.training import Outcome
from regard.training.log import LINE_KEYS, read_log


@dataclass(frozen=True)
class TrainingRun(Outcome):
    """A training that has ended or was interrupted, and the folder with its model.

    Args:
        folder: the run folder.
    """

    folder: Path = field(default=Path(), compare=False)

    @classmethod
    def of(cls, outcome: Outcome, folder: Path) -> Self:
        """The run of a folder."""
        values = {each.name: getattr(outcome, each.name) for each in dataclasses.fields(outcome)}
        return cls(**values, folder=folder)

    @cached_property
    def model(self) -> Any:
        """The best model so far, as `regard.load` returns it.

        Raises:
            RegardError: if the training has not reached a validation.
        """
        return load(self.folder)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The validations in order, each with its step, epoch, metrics and the seconds since the beginning.

        `pandas.DataFrame(run.history)` is a table of them.
        """
        return validations(self.folder)

    def __repr__(self) -> str:
        figures = "".join(f", {name} {value:.4g}" for name, value in self.metrics.items())
        return f"TrainingRun({str(self.folder)!r}, {self.stop_reason} after {self.steps:,} steps{figures})"


def validations(folder: Path) -> list[dict[str, Any]]:
    """The validations of the training of a run folder, as in `TrainingRun.history`; none without its log."""
    return [
        {
            "step": entry["step"],
            "epoch": entry["epoch"],
            **{name: value for name, value in entry.items() if name not in LINE_KEYS},
            "seconds": entry["timing"]["total_seconds"],
        }
        for entry in read_log(folder)
        if entry["kind"] == "validation"
    ]
