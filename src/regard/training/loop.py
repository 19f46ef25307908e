"""The training loop: step, validate, save, until the configuration or a signal says so."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from rich.console import Console

from regard.config.schema import TrainingConfig
from regard.training import archive, device, processes, weights
from regard.training.allocator import keep_memory
from regard.training.checkpoint import Checkpoints
from regard.training.files import clean
from regard.training.lock import Lock
from regard.training.manifest import Manifest
from regard.training.outcome import Outcome
from regard.training.plan import make
from regard.training.prefetch import Prefetch
from regard.training.progress import Display
from regard.training.report import Report, Silence
from regard.training.run import Run
from regard.training.selection import Selection
from regard.training.signals import Interruption
from regard.training.trainee import Trainee


def train(
    trainee: Trainee,
    config: TrainingConfig,
    folder: Path,
    *,
    seed: int,
    select: str,
    larger_is_better: bool = False,
    console: Console | None = None,
    stop: threading.Event | None = None,
    lock: Lock | None = None,
) -> Outcome:
    """Trains, or continues what the folder holds, bit for bit.

    The folder has what prediction needs, as `trainee.save` wrote it for the best weights so far (in the end: for the
    better of the best and the mean of the last validations'), `metrics.jsonl` (`regard.training.log`),
    `pictures/step-00000500/`, `checkpoints/` (`regard.training.checkpoint`), `run.json` (`regard.training.manifest`),
    and `outcome.json` once the run is finished. Files that the run did not write are never touched. A finished run
    returns at once. Whether a used folder belongs to the same configuration is for the caller to see to (`read_state`).

    Processes that `torchrun` has started train together, each with its part of every batch (`DivisibleTrainee`): the
    same steps as one makes, up to rounding. The first one writes and speaks; all need the folder to read from.

    On a CPU the process keeps the memory that it frees, from here to its end (`regard.training.allocator`).

    Validation never changes what is trained: all random generators are put back after it. In the end the module holds
    the weights that are saved; after an interruption, those of the last step.

    Args:
        trainee: what is trained.
        config: the part `training` of a configuration. `batch_tokens`, `label_smoothing`, `compile` and the keys about
            feedback (`regard.training.sampling`) are for the trainee to keep.
        folder: the run folder, made if need be.
        seed: of all draws; it seeds the global generators of torch, numpy and Python.
        select: the metric of validations that names the best weights, stops early and lowers the rate of `plateau`.
        larger_is_better: whether larger values of it are better.
        console: where to show what happens; None is the standard error.
        stop: set from elsewhere, it ends training as Ctrl-C does.
        lock: of the folder, if the caller has entered it already.

    Raises:
        ConfigError: for a device that is not there, an unknown metric, TensorBoard that is not installed.
        DataError: for files of the run that are damaged.
        RegardError: for a loss that is not finite, naming step and batch; the last checkpoint stays. For a folder that
            another process is training in, that cannot be written to, or that has files of others under the names of
            the run's.
    """
    with processes.joined(device.choose(config.device)), processes.silence():
        finished = processes.first(partial(Outcome.read, folder))
        if finished is not None:
            return _revisit(trainee, config, folder, finished, Display(console))
        if device.choose(config.device).type == "cpu":
            keep_memory()
        is_locked = processes.first(lambda: lock is not None)
        selection = Selection(select, larger_is_better)
        with (
            nullcontext() if is_locked else processes.held(partial(Lock, folder)),
            device.threads(config.threads),
            processes.held(lambda: Report(config, folder, Display(console), _tidied(folder))) as report,
            Interruption(stop) as interruption,
        ):
            run = Run(trainee, config, folder, seed=seed, selection=selection, report=report or Silence(folder))
            return _train(run, interruption)


def _tidied(folder: Path) -> Manifest:
    """The manifest of a folder, from which what kills have left half done is gone."""
    clean(folder, folder / "checkpoints", folder / "checkpoints" / "weights")
    manifest = Manifest(folder)
    if manifest.clearing:
        manifest.clear()
    elif (folder / "model.safetensors").exists():
        archive.drop(folder)
    return manifest


def _revisit(trainee: Trainee, config: TrainingConfig, folder: Path, outcome: Outcome, display: Display) -> Outcome:
    display.say(f"{folder}: finished before ({outcome.stop_reason} after {outcome.steps} steps).")
    module = trainee.module.to(device.choose(config.device)).eval()
    try:
        weights.restore(module, Checkpoints(folder).load_weights(outcome.weights))
    except FileNotFoundError as error:
        display.say(f"  {error.filename} was removed, so the module keeps the weights it came with.")
    return outcome


def _train(run: Run, interruption: Interruption) -> Outcome:
    if run.position.step:
        run.report.say(f"{run.folder}: continuing after step {run.position.step}.")
    with Prefetch(partial(make, run.trainee), run.groups()) as steps:
        (stopped,) = processes.anywhere(interruption.stop.is_set())
        while (reason := run.stop_reason) is None and not stopped:
            started, before = time.perf_counter(), steps.waited
            group, batches = next(steps)
            run.step(group, batches, started=started, waited=steps.waited - before)
            stopped, due = processes.anywhere(interruption.stop.is_set(), run.is_due)
            if due:
                run.save()
    if reason is not None:
        return run.finish(reason)
    run.save()
    run.report.say(f"Interrupted after step {run.position.step} and saved: the same command continues.")
    return run.outcome("interrupted", metrics=run.selection.metrics, signal=interruption.signal)
