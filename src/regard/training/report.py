"""The report of a run: its position and pace, metrics in a file and on the screen, samples, pictures."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from regard.config.schema import TrainingConfig
from regard.training.checkpoint import step_name
from regard.training.log import LOG, MetricsLog
from regard.training.manifest import ALWAYS, Manifest
from regard.training.progress import Display
from regard.training.tally import SYMBOLS, MetricSums
from regard.training.trainee import Validation

FIRST_STEPS, TIMED_STEPS, KEPT_STEPS = 5, 50, 200
"""The first steps of a process, which fill caches and do not count; the steps that an estimate needs; those it
averages."""


@dataclass(slots=True)
class Position:
    """The position of a run; plain values.

    Args:
        step: optimiser steps made.
        epoch: epochs completed.
        batch: used batches of the current epoch.
        seconds: seconds of training and validation.
        averaged: the steps of the validations whose weights are averaged if the run ends now.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    averaged: tuple[int, ...] = ()

    @property
    def current_epoch(self) -> int:
        """The epoch of the last step, counted from 1."""
        return self.epoch + (self.batch > 0)


@dataclass(frozen=True, slots=True)
class StepInfo:
    """The state of a training after a step or a validation, for callbacks.

    Args:
        kind: train, validation, or averaged: the validation of the mean of the last weights, at the end.
        step, total: optimiser steps made, and those of the whole training unless it stops early.
        epoch: of the last step, counted from 1.
        metrics: of training, means since the last line of the log; or of the validation.
        learning_rate: of the last step.
        seconds: of training and validation so far.
        remaining: seconds until the end; None if it is too early for an estimate.
    """

    kind: Literal["train", "validation", "averaged"]
    step: int
    total: int
    epoch: int
    metrics: Mapping[str, float]
    learning_rate: float
    seconds: float
    remaining: float | None = None


Callback = Callable[[StepInfo], object]
"""Called after every step and every validation; if it returns True, the training stops as by Ctrl-C."""


@dataclass
class Pace:
    """The seconds of a process's last steps, and of its last validation without pictures."""

    made: int = 0
    steps: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_STEPS))
    validation: float | None = None

    def add(self, seconds: float) -> None:
        """Counts a step."""
        self.made += 1
        if self.made > FIRST_STEPS:
            self.steps.append(seconds)

    def remaining(self, steps: int, validations: int) -> float | None:
        """The seconds of further steps and validations; None if too few have been timed."""
        if len(self.steps) < TIMED_STEPS or (validations and self.validation is None):
            return None
        return steps * sum(self.steps) / len(self.steps) + validations * (self.validation or 0.0)


GROWTH, DRAWING_SHARE, FIRST_DRAWING = 3, 0.05, 2.0
"""Pictures are drawn at the end, and before it when the step number has grown by the factor GROWTH since the last ones,
so mostly at the beginning, where the alignment forms. Before the end they may take DRAWING_SHARE of the time so far; a
drawing is expected to take as long as the one before it, and the first FIRST_DRAWING seconds."""


class RunReport:
    """The report of a run, as a context manager."""

    def __init__(
        self,
        config: TrainingConfig,
        folder: Path,
        display: Display,
        manifest: Manifest,
        *,
        counted: str = SYMBOLS,
        observe: Callable[[StepInfo], None] | None = None,
    ) -> None:
        self._observe, self._last = observe, (0, 0.0)
        self._config, self._folder, self._display, self._counted = config, folder, display, counted
        self.manifest = manifest
        manifest.claim([*ALWAYS, *(["tensorboard/events.*"] if config.tensorboard else [])])
        self._log = MetricsLog(folder / LOG)
        self._shown_remaining = math.inf
        self._drawing, self._all_drawings = FIRST_DRAWING, 0.0

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._display.__exit__(*error)
        self._log.close()

    def resume(self, step: int) -> None:
        """Removes the log after a step."""
        self._log.cut(step)
        if self._config.tensorboard:
            self._log.add_tensorboard(self._folder / "tensorboard", step)

    def sync(self) -> None:
        """Flushes the file to the disk."""
        self._log.sync()

    def step(
        self,
        tally: MetricSums,
        position: Position,
        *,
        learning_rate: float,
        total: int,
        remaining: float | None,
        due: bool,
    ) -> None:
        """Moves the bar after a step and, if due, writes a line.

        Args:
            remaining: seconds until the end; None if it is too early for an estimate.
        """
        averages, timing = tally.averages(), tally.timing(self._counted)
        figures = {"learning_rate": learning_rate, **averages}
        self._display.advance(position.step, total, figures, timing, remaining=remaining)
        if due:
            self._line("train", position, figures, timing)
        self._last = total, learning_rate
        self._call("train", position, averages, remaining)

    def validation(
        self, validation: Validation, position: Position, *, kind: str, seconds: float, is_last: bool
    ) -> None:
        """Writes a line, shows the samples, and draws pictures if they are due or no validation follows."""
        self._line(kind, position, validation.metrics, {"seconds": seconds})
        self._call("averaged" if kind == "averaged" else "validation", position, validation.metrics)
        for line in validation.samples[: self._config.samples]:
            self._display.say(f"  {line}")
        folder = f"pictures/{step_name(position.step) if kind == 'validation' else kind}"
        pictures = {f"{folder}/{name}": write for name, write in validation.pictures[: self._config.samples]}
        if not pictures or not (is_last or self._can_draw(position)):
            return
        started = time.perf_counter()
        self.manifest.claim(pictures)
        for name, write in pictures.items():
            path = self._folder / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path)
            except Exception as error:
                text = f"{path} could not be drawn: {error!r}. Training continues."
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        self._drawing = time.perf_counter() - started
        self._all_drawings += self._drawing

    def _call(
        self,
        kind: Literal["train", "validation", "averaged"],
        position: Position,
        metrics: Mapping[str, float],
        remaining: float | None = None,
    ) -> None:
        if self._observe is not None:
            total, rate = self._last
            epoch, seconds = position.current_epoch, position.seconds
            self._observe(StepInfo(kind, position.step, total, epoch, dict(metrics), rate, seconds, remaining))

    def _can_draw(self, position: Position) -> bool:
        """Whether enough steps have been made since the last pictures, and there is time for others."""
        names = (re.fullmatch(r"step-(\d+)", path.name) for path in self._folder.glob("pictures/step-*"))
        last = max((step for name in names if name is not None and (step := int(name[1])) < position.step), default=0)
        is_due = position.step >= GROWTH * last
        return is_due and self._all_drawings + self._drawing <= DRAWING_SHARE * position.seconds

    def say(self, text: str) -> None:
        """Shows a line of text."""
        self._display.say(text)

    def remaining(self, seconds: float) -> None:
        """Shows the remaining time: at first, and each time that it has halved."""
        if seconds <= self._shown_remaining / 2:
            self._shown_remaining = seconds
            self._display.remaining(seconds, at_most=self._config.early_stopping is not None)

    def _line(self, kind: str, position: Position, figures: Mapping[str, float], timing: Mapping[str, float]) -> None:
        timing = {**timing, "total_seconds": position.seconds}
        self._log.write(kind, position.step, position.current_epoch, figures, timing)
        self._display.metrics(kind, position.step, position.current_epoch, figures, timing)


class SilentReport(RunReport):
    """The report of processes other than the first, which neither print nor write."""

    def __init__(self) -> None:
        """Has no files."""

    def resume(self, step: int) -> None:
        """Nothing is removed."""

    def sync(self) -> None:
        """Nothing is flushed."""

    def step(self, *_: Any, **__: Any) -> None:
        """Nothing is written."""

    def validation(self, *_: Any, **__: Any) -> None:
        """Nothing is written."""

    def say(self, text: str) -> None:
        """Nothing is shown."""

    def remaining(self, seconds: float) -> None:
        """Nothing is shown."""
