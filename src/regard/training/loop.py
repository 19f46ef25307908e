"""The training loop: step, validate, save, until the configuration or a signal says so."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path

from rich.console import Console

from regard.config.schema import TrainingConfig
from regard.training import device, weights
from regard.training.allocator import keep_memory
from regard.training.checkpoint import Checkpoints
from regard.training.outcome import Outcome
from regard.training.plan import make
from regard.training.prefetch import Prefetch
from regard.training.progress import Display
from regard.training.report import Report
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
) -> Outcome:
    """Trains, or continues what the folder holds, bit for bit.

    The folder has what prediction needs, as `trainee.save` wrote it for the best weights so far (in the end: for the
    best, or for the mean of the last validations'), `metrics.jsonl` (`regard.training.log`), `pictures/step-00000500/`,
    `checkpoints/` (`regard.training.checkpoint`), and `outcome.json` once the run is finished. A finished run returns
    at once. Whether a used folder belongs to the same configuration is for the caller to see to (`read_state`).

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

    Raises:
        ConfigError: for a device that is not there, an unknown metric, TensorBoard that is not installed.
        RegardError: for a loss that is not finite, naming step and batch; the last checkpoint stays. For a folder that
            another process is training in.
    """
    folder.mkdir(parents=True, exist_ok=True)
    finished = Outcome.read(folder)
    if finished is not None:
        return _revisit(trainee, config, folder, finished, Display(console))
    if device.choose(config.device).type == "cpu":
        keep_memory()
    selection = Selection(select, larger_is_better)
    with (
        device.threads(config.threads),
        Report(config, folder, Display(console)) as report,
        Interruption(stop) as interruption,
    ):
        run = Run(trainee, config, folder, seed=seed, selection=selection, report=report)
        return _train(run, interruption)


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
        while (reason := run.stop_reason) is None and not interruption.stop.is_set():
            started, before = time.perf_counter(), steps.waited
            group, batches = next(steps)
            run.step(group, batches, started=started, waited=steps.waited - before)
            run.save_if_due()
    if reason is not None:
        return run.finish(reason)
    run.save()
    run.report.say(f"Interrupted after step {run.position.step} and saved: the same command continues.")
    return run.outcome("interrupted", metrics=run.selection.metrics, signal=interruption.signal)
