"""Trainings of a search as tasks of a Ray cluster, whose machines share a file system."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import Configuration
from regard.errors import RegardError
from regard.runs.cluster import Cluster
from regard.runs.run import TrainingRun
from regard.runs.sweep.trial import attempted
from regard.training.report import StepInfo

RETRIES = 3
"""How often a training continues elsewhere, from its checkpoint, after its process or its machine has ended."""
STOPPING = 30.0
"""The seconds in which trainings that are interrupted may save their checkpoints."""


@dataclass(frozen=True, slots=True)
class Validated:
    """A validation of a training, which waits for an answer.

    Args:
        number: of the trial.
        facts: `steps` made, `total` steps and `seconds` of the training.
        value: of the metric.
    """

    number: int
    facts: Mapping[str, float]
    value: float


@dataclass(frozen=True, slots=True)
class TrainingEnd:
    """The end of a training: the run, or the reason of a failure."""

    number: int
    result: TrainingRun | str


class Mailbox:
    """What trainings report to the process of the search, and its answers; an actor on the machine of that process."""

    def __init__(self) -> None:
        self._reports: asyncio.Queue[Validated] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[bool]] = {}

    async def report(self, validated: Validated) -> bool:
        """Whether a training stops at its validation, once that is decided."""
        answer = self._answers[validated.number] = asyncio.get_running_loop().create_future()
        await self._reports.put(validated)
        return await answer

    async def next(self) -> Validated:
        """The next report."""
        return await self._reports.get()

    async def answer(self, number: int, stops: bool) -> None:
        """Answers the report of a trial."""
        waiting = self._answers.pop(number, None)
        if waiting is not None and not waiting.done():  # else its process has ended since
            waiting.set_result(stops)


class RemoteTrainings:
    """The trainings of a search that are running on a cluster. The machines share the file system.

    Args:
        metric: the name of the metric that is compared.
    """

    def __init__(self, cluster: Cluster, metric: str) -> None:
        self.most, self._ray, self._metric = cluster.num_workers, cluster.ray, metric
        self._trained = cluster.remote(_trained, max_retries=RETRIES)
        mailbox = cluster.ray.remote(num_cpus=0, scheduling_strategy=cluster.here())(Mailbox)
        self._mailbox = mailbox.remote()
        self._report = self._mailbox.next.remote()
        self._running: dict[Any, int] = {}  # by Ray's reference of the task

    def begin(self, number: int, configuration: Configuration, folder: Path) -> None:
        """Begins or continues a training in its run folder."""
        task = self._trained.remote(number, configuration, folder, Path.cwd(), self._metric, self._mailbox)
        self._running[task] = number

    def next(self, seconds: float) -> Validated | TrainingEnd | None:
        """What happens next; None if nothing does in so many seconds.

        Raises:
            RegardError: for an error that would end the other trainings, too.
        """
        ready, _ = self._ray.wait([self._report, *self._running], timeout=seconds)
        if not ready:
            return None
        if ready[0] == self._report:
            validated: Validated = self._ray.get(self._report)
            self._report = self._mailbox.next.remote()
            return validated
        number, errors = self._running.pop(ready[0]), self._ray.exceptions
        try:
            return TrainingEnd(number, self._ray.get(ready[0]))
        except errors.RayError as error:
            if isinstance(error, errors.RayTaskError) and not isinstance(error.cause, errors.RayError):
                raise error.cause from None
            return TrainingEnd(number, str(error).strip().splitlines()[0])

    def answer(self, number: int, *, stops: bool) -> None:
        """Answers a validation: whether the training stops."""
        self._mailbox.answer.remote(number, stops)

    def close(self) -> None:
        """Interrupts the trainings as Ctrl-C does; they save themselves once their reports are answered."""
        for task in self._running:
            self._ray.cancel(task, recursive=False)


def _trained(
    number: int, configuration: Configuration, folder: Path, directory: Path, metric: str, mailbox: Any
) -> TrainingRun | str:
    """Trains in a process of the cluster; each validation waits for the answer whether the training stops."""
    import ray

    sweep = (directory / folder).parents[1]
    if not sweep.is_dir():
        raise RegardError(
            f"{sweep}: {socket.gethostname()} has no such folder; a search on a cluster needs a file system that all "
            "machines share."
        )

    def observe(info: StepInfo) -> bool:
        if info.kind != "validation":
            return False
        facts = {"steps": info.step, "total": info.total, "seconds": info.seconds}
        return bool(ray.get(mailbox.report.remote(Validated(number, facts, float(info.metrics[metric])))))

    with chdir(directory):
        return attempted(number, configuration, folder, callback=observe, quiet=True)
