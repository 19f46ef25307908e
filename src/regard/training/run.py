"""A run: its operations, which `regard.training.loop` calls in order, and the state that a checkpoint saves."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator

from regard import weights
from regard.config.schema import TrainingConfig
from regard.errors import counted
from regard.files import publish
from regard.training import device, processes
from regard.training.accumulation import Accumulation, accumulations
from regard.training.checkpoint import Checkpoints
from regard.training.diagnosis import Diagnosis
from regard.training.manifest import drop_replaced
from regard.training.outcome import Outcome, StopReason
from regard.training.report import Pace, Position, RunReport
from regard.training.schedule import Plateau, Schedule
from regard.training.selection import BestValidation
from regard.training.step import Stepper
from regard.training.tally import MetricSums
from regard.training.trainee import ConcludingTrainee, Trainee, Validation

SEED_STRIDE = 1_000_003
"""The difference between the seeds of two processes."""


class Run:
    """A training run in its folder, resumed from the newest checkpoint if there is one."""

    def __init__(
        self,
        trainee: Trainee,
        config: TrainingConfig,
        folder: Path,
        *,
        seed: int,
        selection: BestValidation,
        report: RunReport,
    ) -> None:
        self.trainee, self.config, self.folder = trainee, config, folder
        self.selection, self.report = selection, report
        self.device = device.choose(config.device)
        self.module = trainee.module.to(self.device)
        self.stepper = Stepper(trainee, config, self.device, seed=seed)
        if config.sharding != "none" and processes.size() == 1:
            report.say(f"warning: training.sharding={config.sharding} has no effect in a single process.")
        self._steps_per_epoch = max(-(-len(trainee.descriptions(0)) // config.accumulation), 1)
        planned = config.epochs * self._steps_per_epoch  # if all epochs have as many batches as the first
        self.total_steps = min(planned, config.max_steps or planned)
        self.schedule = Schedule(config, total_steps=self.total_steps)
        self.generator = torch.Generator(self.device)
        self.position, self.tally, self.diagnosis = Position(), MetricSums(), Diagnosis()
        self.checkpoints = Checkpoints(folder)
        _seed(seed + processes.rank() * SEED_STRIDE, self.generator)
        step = processes.first(lambda: self.checkpoints.sound(lambda text: report.say(f"warning: {text}")))
        if step is not None:
            with self.stepper.exchange.whole(keep=True):
                stored, state = processes.first(partial(self.checkpoints.load, step))
                weights.restore(self.module, stored)
            self._restore(state)
        self.report.resume(self.position.step)
        self._pace = Pace()
        self._has_warned = False
        self._saved_at = time.monotonic()

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run ends now, or None; a function of what a checkpoint saves."""
        if self.config.early_stopping is not None and self.selection.stale >= self.config.early_stopping:
            return "early_stopping"
        if self.config.max_steps is not None and self.position.step >= self.config.max_steps:
            return "max_steps"
        return "epochs" if self.position.epoch >= self.config.epochs else None

    def accumulations(self) -> Iterator[Accumulation]:
        """The batches of the remaining steps."""
        return accumulations(
            self.trainee,
            epoch=self.position.epoch,
            batch=self.position.batch,
            epochs=self.config.epochs,
            count=self.config.accumulation,
        )

    def step(self, accumulation: Accumulation, batches: Sequence[Any], *, started: float, waited: float) -> None:
        """Makes an optimiser step.

        Args:
            started: the time of `time.perf_counter` at which the wait for the batches began.
        """
        learning_rate = self.schedule.learning_rate(self.position.step + 1)
        if not self.module.training:
            self.module.train()
        figures_now = self.stepper(
            list(zip(accumulation.batches, batches)),
            step=self.position.step,
            learning_rate=learning_rate,
            generator=self.generator,
        )
        if self.device.type == "cuda" and self.stepper.unrecorded is not None and not self._has_warned:
            self._has_warned = True
            self.report.say(f"Steps are not recorded: {self.stepper.unrecorded}.")
        done = accumulation.end == accumulation.size
        self.position.step += 1
        self.position.epoch, self.position.batch = accumulation.epoch + done, 0 if done else accumulation.end
        ends, every = self.stop_reason is not None, self.config.validate_every
        due = ends or self.position.step % self.config.log_every == 0
        validates = ends or (done if every is None else self.position.step % every == 0)
        for figures in figures_now + (self.stepper.read() if due or validates else []):
            self.tally.add(figures)
        seconds = time.perf_counter() - started
        self.position.seconds += seconds
        self.tally.pass_time(seconds, waited)
        self._pace.add(seconds)
        self.report.step(
            self.tally,
            self.position,
            learning_rate=learning_rate,
            total=self.total_steps,
            remaining=self._remaining(),
            due=due,
        )
        if due:
            self.tally = MetricSums()
        if validates:
            before = self.position.seconds
            self.validate()
            self._pace.validation = self.position.seconds - before
            if self.stop_reason is None and (left := self._remaining()) is not None:
                self.report.remaining(left)

    def validate(self) -> None:
        """Validates, reports, and saves the weights if they are the best so far or will be averaged."""
        mean_follows = self._averages and bool(self.position.averaged)
        validation = self._validation("validation", is_last=self.stop_reason is not None and not mean_follows)
        step = self.position.step
        improved = self.selection.observe(validation.metrics, step, concern=validation.concern)
        self.schedule.observe(improved=improved)
        focus, alignment = validation.focus, validation.alignment
        self._warn(self.diagnosis.observe(validation.metrics, focus=focus, step=step, alignment=alignment))
        if self._averages:
            self.position.averaged = (*self.position.averaged, step)[-self.config.average_checkpoints :]
        with self.stepper.exchange.whole():
            processes.first(partial(self._keep, improved=improved))

    def _keep(self, *, improved: bool) -> None:
        """Writes the weights of the last validation if the final model may need them."""
        if improved or self._averages:
            self.checkpoints.save_weights(self.module, self.position.step, best=improved)
        if improved:
            self._publish()
        self.checkpoints.keep_weights(self._needed)

    def save(self) -> None:
        """Writes a checkpoint to resume from."""
        for figures in self.stepper.read():
            self.tally.add(figures)
        self.report.sync()
        state = {
            "position": dataclasses.asdict(self.position),
            "tally": dataclasses.asdict(self.tally),
            "selection": dataclasses.asdict(self.selection),
            "plateau": dataclasses.asdict(self.schedule.plateau),
            "diagnosis": dataclasses.asdict(self.diagnosis),
            "optimizer": self.stepper.state(),
            "scaler": self.stepper.precision.state(),
            "random": processes.gathered(_random_states(self.generator)),
        }
        save = partial(self.checkpoints.save, self.module, state)
        with self.stepper.exchange.whole():
            processes.first(partial(save, step=self.position.step, epoch=self.position.epoch, needed=self._needed))
        self._saved_at = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return time.monotonic() - self._saved_at >= 60.0 * self.config.save_every_minutes

    def finish(self, reason: StopReason) -> Outcome:
        """Saves the final model and marks the run as finished."""
        if self.selection.last != self.position.step:
            self.validate()
        self.save()
        averaged = self._averaged() if len(self.position.averaged) > 1 else None
        if averaged is None:
            final, metrics, concern = self._best, self.selection.metrics, self.selection.concern
            self._put(final)
        else:
            final, metrics, concern = set(self.position.averaged), dict(averaged.metrics), averaged.concern
        self._conclude()
        with self.stepper.exchange.whole():
            processes.first(self._publish)
        self._warn(self.diagnosis.end(concern))
        self.report.sync()
        outcome = self.outcome(reason, metrics=metrics, final=final)
        processes.first(partial(outcome.write, self.folder))
        with self.stepper.exchange.whole():
            processes.first(partial(self._close, final))
        return outcome

    def _conclude(self) -> None:
        """Lets the trainee complete the model, whose final weights stand."""
        if isinstance(self.trainee, ConcludingTrainee):
            started = time.perf_counter()
            self.module.eval()
            with _preserved_random(self.generator), torch.no_grad(), self.stepper.exchange.whole():
                message = self.trainee.conclude()
            if message:
                self.report.say(f"{message}, in {time.perf_counter() - started:.1f} s.")

    def _close(self, final: set[int]) -> None:
        """Removes checkpoints according to `keep_checkpoints`."""
        assert self.selection.step is not None
        if self.config.keep_checkpoints == "none":
            self.checkpoints.remove()
        elif self.config.keep_checkpoints == "latest":
            self.checkpoints.close(self.module, best=self.selection.step, final=final)

    def outcome(
        self,
        reason: StopReason,
        *,
        metrics: dict[str, float],
        final: set[int] | None = None,
        signal: int | None = None,
    ) -> Outcome:
        """The outcome of the run if it ends now.

        Args:
            metrics: of the model in the folder.
            final: the steps of the validations whose mean is that model; the best validation if None.
            signal: the number of the signal that interrupted the run, if any.
        """
        return Outcome(
            steps=self.position.step,
            epochs=self.position.epoch,
            best=self.selection.best,
            best_step=self.selection.step,
            stop_reason=reason,
            seconds=self.position.seconds,
            metrics=metrics,
            weights=sorted(self._best if final is None else final),
            signal=signal,
        )

    @property
    def _averages(self) -> bool:
        return self.config.average_checkpoints > 1

    @property
    def _best(self) -> set[int]:
        return set() if self.selection.step is None else {self.selection.step}

    @property
    def _needed(self) -> set[int]:
        """The steps of the validations whose weights the final model may need."""
        return self._best | set(self.position.averaged)

    def _averaged(self) -> Validation | None:
        """The validation of the mean of the last weights; None if the best single validation is as good."""
        steps, metric = sorted(self.position.averaged), self.selection.metric
        self._put(steps)
        validation = self._validation("averaged", is_last=True)
        better = self.selection.prefers(validation.metrics)
        value, span = self.selection.value(validation.metrics), f"steps {steps[0]:,} to {steps[-1]:,}"
        mean = f"the mean of {len(steps)} models, {span} ({metric} {value:.4g})"
        best = f"the best single one, of step {self.selection.step:,} ({metric} {self.selection.best:.4g})"
        text = f"{mean}, rather than {best}" if better else f"{best}; {mean}, is no better"
        self.report.say(f"The saved model is {text}.")
        return validation if better else None

    def _put(self, steps: Collection[int]) -> None:
        """Loads the mean of validated weights into the module."""
        with self.stepper.exchange.whole(keep=True):
            weights.restore(self.module, processes.first(partial(self.checkpoints.load_weights, steps)))

    def _publish(self) -> None:
        """Saves the current model in the folder."""
        publish(self.folder, self.trainee.save, last="model.safetensors", claim=self.report.manifest.claim)
        drop_replaced(self.folder)

    def _warn(self, warnings: list[str]) -> None:
        for text in warnings:
            self.report.say(text)

    def _remaining(self) -> float | None:
        """Seconds until the planned end, including validations; None if it is too early for an estimate."""
        step, total, every = self.position.step, self.total_steps, self.config.validate_every or self._steps_per_epoch
        ends = total % every > 0  # the last validation is always at the end
        validations = total // every - step // every + ends + self._averages
        return self._pace.remaining(max(total - step, 0), max(validations, 0))

    def _validation(self, kind: str, *, is_last: bool) -> Validation:
        """Validates and reports, and restores the states of the random generators."""
        started = time.perf_counter()
        self.module.eval()
        with _preserved_random(self.generator), torch.no_grad(), self.stepper.exchange.whole():
            local = self.trainee.validate()
            metrics, concern = processes.first(lambda: (dict(local.metrics), local.concern))
            validation = replace(local, metrics=metrics, concern=concern)
            seconds = time.perf_counter() - started
            self.position.seconds += seconds
            self.report.validation(validation, self.position, kind=kind, seconds=seconds, is_last=is_last)
        return validation

    def _restore(self, state: dict[str, Any]) -> None:
        self.position = Position(**state["position"])
        # a finished run has removed most of these weights
        there = processes.first(lambda: [*filter(self.checkpoints.has_weights, self.position.averaged)])
        self.position.averaged = tuple(there)
        self.tally = MetricSums(**state["tally"])
        self.selection = BestValidation(**state["selection"])
        self.schedule.plateau = Plateau(**state["plateau"])
        self.diagnosis = Diagnosis(**state.get("diagnosis", {}))
        self.stepper.restore(state["optimizer"])
        self.stepper.precision.restore(state["scaler"])
        states = state["random"] if isinstance(state["random"], list) else [state["random"]]
        if processes.rank() < len(states):
            _restore_random(states[processes.rank()], self.generator)
        if len(states) != processes.size():
            self.report.say(
                f"The run was started by {counted(len(states), 'process|processes')} and continues with "
                f"{counted(processes.size(), 'process|processes')}: batches and results are the same, except for "
                "rounding and for random draws that do not belong to an item."
            )


def _seed(value: int, generator: Generator) -> None:
    """Seeds all generators: torch's on every device, Python's, numpy's and the training loop's."""
    torch.manual_seed(value)
    random.seed(value)
    np.random.seed(value % 2**32)
    generator.manual_seed(value)


def _random_states(generator: Generator) -> dict[str, Any]:
    """The states of all random generators that training uses, as tensors and plain containers."""
    numpy: Any = np.random.get_state(legacy=False)
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        "python": random.getstate(),
        "numpy": {**numpy, "state": {**numpy["state"], "key": numpy["state"]["key"].tolist()}},
        "generator": generator.get_state(),
    }


def _restore_random(state: dict[str, Any], generator: Generator) -> None:
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])
    random.setstate(state["python"])
    numpy = state["numpy"]
    np.random.set_state({**numpy, "state": {**numpy["state"], "key": np.array(numpy["state"]["key"], dtype=np.uint32)}})
    generator.set_state(state["generator"])


@contextmanager
def _preserved_random(generator: Generator) -> Iterator[None]:
    """Restores all generators after the block, so that draws inside it do not change later ones."""
    before = _random_states(generator)
    try:
        yield
    finally:
        _restore_random(before, generator)
