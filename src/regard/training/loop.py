"""The training loop: steps, validations and checkpoints until the configuration or a signal ends it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Generic, Self, TypeVar

from rich.console import Console
from torch import Tensor

from regard import weights
from regard.config.schema import TrainingConfig
from regard.files import clean
from regard.training import device, processes
from regard.training.accumulation import make_batches
from regard.training.allocator import keep_memory
from regard.training.checkpoint import Checkpoints
from regard.training.lock import Lock
from regard.training.manifest import Manifest, drop_replaced
from regard.training.outcome import Outcome
from regard.training.progress import Display
from regard.training.report import Callback, RunReport, SilentReport, StepInfo
from regard.training.run import Run
from regard.training.selection import BestValidation
from regard.training.tally import SYMBOLS
from regard.training.trainee import CountingTrainee, Trainee


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
    callback: Callback | None = None,
) -> Outcome:
    """Trains, or resumes the run in the folder bit for bit.

    The folder gets the files of `trainee.save` (with the best weights so far; at the end, with those or the mean of the
    last validations, whichever is better), `metrics.jsonl` (`regard.training.log`), `pictures/step-00000500/`,
    `checkpoints/` (`regard.training.checkpoint`), `run.json` (`regard.training.manifest`), and at the end
    `outcome.json`. Other files are never touched. A finished run returns immediately. The caller checks that an
    existing run has the same configuration (`read_state`).

    Processes that `torchrun` has started train together, each on its part of every batch (`DivisibleTrainee`), and make
    the steps of a single process, up to rounding. Only the first process reads the folder, writes and prints.

    On a CPU the process then keeps freed memory until it ends (`regard.training.allocator`).

    Validation does not affect training: the states of all random generators are restored after it. At the end the
    module has the saved weights; after an interruption, those of the last step.

    Args:
        trainee: the model with its data and its loss.
        config: the section `training` of a configuration. The trainee applies `batch_tokens`, `label_smoothing`,
            `compile` and the keys of feedback (`regard.training.feedback`).
        folder: the run folder, created if necessary.
        seed: of all random draws; it seeds the global generators of torch, numpy and Python.
        select: the metric of validations that selects the best weights, stops early and lowers the rate of `plateau`.
        larger_is_better: whether larger values of that metric are better.
        console: where to print; the standard error if None.
        stop: an event by which another thread ends training, as Ctrl-C does.
        lock: the lock of the folder, if the caller has already entered it.
        callback: called in the first process after every step and every validation; True ends training, as Ctrl-C does.

    Raises:
        ConfigError: for a device that does not exist, an unknown metric, or TensorBoard that is not installed.
        DataError: for damaged files of the run.
        RegardError: for a non-finite loss (the text names step and batch; the last checkpoint remains), or a folder in
            which another process trains, that is not writable, or that has other files under names of the run.
    """
    with processes.joined(device.choose(config.device)), processes.silence():
        finished = processes.first(partial(Outcome.read, folder))
        if finished is not None:
            return _revisit(trainee, config, folder, finished, Display(console))
        if device.choose(config.device).type == "cpu":
            keep_memory()
        display = Display(console)
        counted = trainee.counted if isinstance(trainee, CountingTrainee) else SYMBOLS
        stop = stop or threading.Event()

        def observe(info: StepInfo) -> None:
            if callback is not None and callback(info) is True:
                stop.set()

        is_locked = processes.first(lambda: lock is not None)
        selection = BestValidation(select, larger_is_better)
        with (
            nullcontext() if is_locked else processes.held(partial(Lock, folder)),
            device.threads(config.threads),
            processes.held(
                lambda: RunReport(config, folder, display, _tidied(folder), counted=counted, observe=observe)
            ) as report,
            Interruption(stop) as interruption,
        ):
            run = Run(trainee, config, folder, seed=seed, selection=selection, report=report or SilentReport())
            return _train(run, interruption)


def _tidied(folder: Path) -> Manifest:
    """The manifest of a folder, after removing or finishing operations that a kill interrupted."""
    clean(folder, folder / "checkpoints", folder / "checkpoints" / "weights")
    manifest = Manifest(folder)
    if manifest.clearing:
        manifest.clear()
    elif (folder / "model.safetensors").exists():
        drop_replaced(folder)
    return manifest


def _revisit(trainee: Trainee, config: TrainingConfig, folder: Path, outcome: Outcome, display: Display) -> Outcome:
    display.say(f"{folder}: {outcome.ended}")
    module = trainee.module.to(device.choose(config.device)).eval()

    def final() -> dict[str, Tensor] | None:
        try:
            return Checkpoints(folder).load_weights(outcome.weights)
        except FileNotFoundError as error:
            display.say(f"  {error.filename} was removed; the module keeps its weights.")
            return None

    if (loaded := processes.first(final)) is not None:
        weights.restore(module, loaded)
    return outcome


def _train(run: Run, interruption: Interruption) -> Outcome:
    if run.position.step:
        run.report.say(f"{run.folder}: continuing after step {run.position.step:,}.")
    with Prefetch(partial(make_batches, run.trainee), run.accumulations()) as steps:
        (stopped,) = processes.anywhere(interruption.is_due)
        while (reason := run.stop_reason) is None and not stopped:
            started, before = time.perf_counter(), steps.waited
            accumulation, batches = next(steps)
            run.step(accumulation, batches, started=started, waited=steps.waited - before)
            stopped, due = processes.anywhere(interruption.is_due, run.is_due)
            if due:
                run.save()
    if reason is not None:
        return run.finish(reason)
    run.save()
    run.report.say(f"Interrupted after step {run.position.step:,}. The run is saved; the same command continues it.")
    # torchrun ends a job whose processes end with status 0, so all have that of the one that got the signal
    received = processes.gathered(interruption.signal)
    return run.outcome("interrupted", metrics=run.selection.metrics, signal=next(filter(None, received), None))


class Interruption:
    """A context in which Ctrl-C and SIGTERM set `stop`; a further Ctrl-C raises KeyboardInterrupt.

    A process of torchrun also stops when torchrun has ended, since another job may soon train in the folder. Handlers
    are installed in the main thread only, as Python requires, and restored afterwards.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self.signal: int | None = None
        """The signal that was received, or None."""
        self._previous: dict[int, Any] = {}
        self._parent = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None

    @property
    def is_due(self) -> bool:
        """Whether the training has to stop after this step."""
        if self._parent is not None and self.signal is None and os.getppid() != self._parent:
            self._handle(signal.SIGTERM, None)
        return self.stop.is_set()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
        self.stop.set()
        # the handler may interrupt another write, so it bypasses Python's buffers
        if processes.is_first():
            os.write(2, b"\nStopping after this step. Press Ctrl-C to stop at once.\n")


ItemT = TypeVar("ItemT")
MadeT = TypeVar("MadeT")

DEPTH = 4
"""The number of items that are prepared ahead."""


class Prefetch(Generic[ItemT, MadeT]):
    """An iterator of pairs of an item and `make(item)`, computed in another thread, which ends with the context.

    An error of `make` is raised when its item is due. `waited` is the time that the consumer has waited, in seconds.
    """

    def __init__(self, make: Callable[[ItemT], MadeT], items: Iterable[ItemT]) -> None:
        self.waited = 0.0
        self._make = make
        self._items = iter(items)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="regard-prefetch")
        self._ready: deque[tuple[ItemT, Future[MadeT]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __iter__(self) -> Iterator[tuple[ItemT, MadeT]]:
        return self

    def __next__(self) -> tuple[ItemT, MadeT]:
        while len(self._ready) < DEPTH:
            try:
                item = next(self._items)
            except StopIteration:
                break
            self._ready.append((item, self._pool.submit(self._make, item)))
        if not self._ready:
            raise StopIteration
        item, made = self._ready.popleft()
        start = time.perf_counter()
        try:
            return item, made.result()
        finally:
            self.waited += time.perf_counter() - start
