"""A run: what must be known to continue it, and its verbs. `regard.training.loop` says in which order."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.config.schema import TrainingConfig
from regard.training import device, randomness, weights
from regard.training.checkpoint import Checkpoints
from regard.training.files import clean, publish
from regard.training.outcome import Outcome, StopReason
from regard.training.plan import Group, groups
from regard.training.position import Position
from regard.training.report import Report
from regard.training.schedule import Plateau, Schedule
from regard.training.selection import Selection
from regard.training.step import Stepper
from regard.training.tally import Tally
from regard.training.trainee import Trainee, Validation


class Run:
    """One training run in its folder, continued from the newest checkpoint if there is one."""

    def __init__(
        self,
        trainee: Trainee,
        config: TrainingConfig,
        folder: Path,
        *,
        seed: int,
        selection: Selection,
        report: Report,
    ) -> None:
        self.trainee, self.config, self.folder = trainee, config, folder
        self.selection, self.report = selection, report
        self.device = device.choose(config.device)
        self.module = trainee.module.to(self.device)
        self.stepper = Stepper(trainee, config, self.device)
        self.schedule = Schedule(config, total_steps=self._total_steps())
        self.generator = torch.Generator(self.device)
        self.position, self.tally = Position(), Tally()
        self.checkpoints = Checkpoints(folder)
        randomness.seed(seed, self.generator)
        if self.checkpoints.latest is not None:
            self._restore(self.checkpoints.load(self.module, self.checkpoints.latest))
        self.report.resume(self.position.step)
        clean(folder)
        self._saved_at = time.monotonic()

    @property
    def stop_reason(self) -> StopReason | None:
        """Why no step is to be made, if so. It follows from what a checkpoint holds."""
        if self.config.early_stopping is not None and self.selection.stale >= self.config.early_stopping:
            return "early_stopping"
        if self.config.max_steps is not None and self.position.step >= self.config.max_steps:
            return "max_steps"
        return "epochs" if self.position.epoch >= self.config.epochs else None

    def groups(self) -> Iterator[Group]:
        """The batches of the steps to make."""
        return groups(
            self.trainee,
            epoch=self.position.epoch,
            batch=self.position.batch,
            epochs=self.config.epochs,
            accumulation=self.config.accumulation,
        )

    def step(self, group: Group, batches: Sequence[Any], *, started: float, waited: float) -> None:
        """Makes an optimiser step.

        Args:
            started: on the clock of `time.perf_counter`, when the wait for the batches began.
            waited: seconds of that wait.
        """
        learning_rate = self.schedule.learning_rate(self.position.step + 1)
        if not self.module.training:
            self.module.train()
        figures = self.stepper(
            zip(group.descriptions, batches),
            step=self.position.step,
            learning_rate=learning_rate,
            generator=self.generator,
        )
        done = group.end == group.size
        self.position.step += 1
        self.position.epoch, self.position.batch = group.epoch + done, 0 if done else group.end
        seconds = time.perf_counter() - started
        self.position.seconds += seconds
        self.tally.add(figures, seconds=seconds, waited=waited)
        due = self.position.step % self.config.log_every == 0 or self.stop_reason is not None
        fraction = (group.epoch + group.end / group.size) / self.config.epochs
        self.report.step(self.tally, self.position, learning_rate=learning_rate, fraction=fraction, due=due)
        if due:
            self.tally = Tally()
        every = self.config.validate_every
        if (done if every is None else self.position.step % every == 0) or self.stop_reason is not None:
            self.validate()

    def validate(self) -> None:
        """Validates, shows what came out, and saves the weights if they are the best so far or will be averaged."""
        validation = self._validation("validation")
        step = self.position.step
        improved = self.selection.observe(validation.metrics, step)
        self.schedule.observe(improved=improved)
        if self._averages:
            self.position.averaged = (*self.position.averaged, step)[-self.config.average_checkpoints :]
        if improved or self._averages:
            self.checkpoints.save_weights(self.module, step, best=improved)
        if improved:
            publish(self.folder, self.trainee.save, last="model.safetensors")
        self.checkpoints.keep_weights(self._needed)

    def save(self) -> None:
        """Writes a checkpoint that continues from here."""
        self.report.sync()
        state = {
            "position": dataclasses.asdict(self.position),
            "tally": dataclasses.asdict(self.tally),
            "selection": dataclasses.asdict(self.selection),
            "plateau": dataclasses.asdict(self.schedule.plateau),
            "optimizer": self.stepper.optimizer.state_dict(),
            "scaler": self.stepper.precision.state(),
            "random": randomness.capture(self.generator),
        }
        self.checkpoints.save(
            self.module, state, step=self.position.step, epoch=self.position.epoch, needed=self._needed
        )
        self._saved_at = time.monotonic()

    def save_if_due(self) -> None:
        """Writes a checkpoint if the last one is old enough."""
        if time.monotonic() - self._saved_at >= 60.0 * self.config.save_every_minutes:
            self.save()

    def finish(self, reason: StopReason) -> Outcome:
        """Makes the final model the one that is saved, and marks the run as finished."""
        if self.selection.last != self.position.step:
            self.validate()
        self.save()
        weights.restore(self.module, self.checkpoints.load_weights(self._final))
        metrics = self.selection.metrics
        if self._averages:
            metrics = dict(self._validation("averaged").metrics)
            mean, best = self.selection.value(metrics), self.selection.best
            self.report.say(
                f"The saved model is the mean of {len(self.position.averaged)} validations' weights: "
                f"{self.selection.metric} {mean:.4g}; the best single one had {best:.4g}."
            )
        publish(self.folder, self.trainee.save, last="model.safetensors")
        self.report.sync()
        outcome = self.outcome(reason, metrics=metrics)
        outcome.write(self.folder)
        return outcome

    def outcome(self, reason: StopReason, *, metrics: dict[str, float], signal: int | None = None) -> Outcome:
        """How the run stands now."""
        return Outcome(
            steps=self.position.step,
            epochs=self.position.epoch,
            best=self.selection.best,
            best_step=self.selection.step,
            stop_reason=reason,
            seconds=self.position.seconds,
            metrics=metrics,
            weights=sorted(self._final),
            signal=signal,
        )

    @property
    def _averages(self) -> bool:
        return self.config.average_checkpoints > 1

    @property
    def _best(self) -> set[int]:
        return set() if self.selection.step is None else {self.selection.step}

    @property
    def _final(self) -> set[int]:
        """The validations whose weights, or their mean, the run would end with."""
        return set(self.position.averaged) if self._averages else self._best

    @property
    def _needed(self) -> set[int]:
        return self._best | self._final

    def _total_steps(self) -> int:
        if self.config.schedule != "cosine":
            return 0
        planned = self.config.epochs * -(-len(self.trainee.plan(0)) // self.config.accumulation)
        return min(planned, self.config.max_steps or planned)

    def _validation(self, kind: str) -> Validation:
        """Validates and reports; the random generators are put back afterwards."""
        started = time.perf_counter()
        self.module.eval()
        with randomness.preserved(self.generator), torch.no_grad():
            validation = self.trainee.validate()
            seconds = time.perf_counter() - started
            self.position.seconds += seconds
            self.report.validation(validation, self.position, kind=kind, seconds=seconds)
        return validation

    def _restore(self, state: dict[str, Any]) -> None:
        self.position = Position(**state["position"])
        self.tally = Tally(**state["tally"])
        self.selection = Selection(**state["selection"])
        self.schedule.plateau = Plateau(**state["plateau"])
        self.stepper.optimizer.load_state_dict(state["optimizer"])
        self.stepper.precision.restore(state["scaler"])
        randomness.restore(state["random"], self.generator)
