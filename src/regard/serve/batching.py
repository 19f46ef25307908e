"""Requests of a model that arrive together are computed together, in one thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.decoding.stopping import stopping


class Closed(Exception):
    """Raised for a job that comes after the last one."""


class Full(Exception):
    """Raised for a job that finds as many waiting as are allowed."""


class GivenUp(Exception):
    """Raised inside a computation that nobody waits for any longer."""


@dataclass(eq=False)
class Job:
    """A request as the thread of its model computes it.

    Args:
        items: of the request.
        read: makes an input of an item; what it raises fails this job only.
        compute: the results of inputs, one for each, in order.
        answer: makes the result of the job of those of its items.
        key: jobs of equal keys, which have the same `compute`, may be computed together; None: this one is alone.
    """

    items: Sequence[Any]
    read: Callable[[int, Any], Any]
    compute: Callable[[Sequence[Any]], Sequence[Any]]
    answer: Callable[[Sequence[Any]], Any]
    key: Hashable = None
    arrived: float = field(init=False, default=0.0)
    future: asyncio.Future[Any] = field(init=False)
    """The result; whoever does not want it any longer cancels it."""

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits for the result any longer."""
        return self.future.cancelled()


class Batcher:
    """The thread that computes the jobs of a model.

    The thread waits until the oldest job has waited for `wait` seconds, or until there are `most_items`; jobs that come
    while it computes have waited meanwhile. If a computation of several jobs fails, each is computed alone, so that an
    error is that of its own job.

    Args:
        wait: seconds.
        most_items: the items of the jobs of a computation; a job with more is computed alone.
        most_jobs: that wait, besides those that are being computed.
        observe: called with the number of items of each computation.
    """

    def __init__(
        self, *, wait: float, most_items: int, most_jobs: int, observe: Callable[[int], object], name: str = "model"
    ) -> None:
        self._wait, self._most_items, self._most_jobs, self._observe = wait, most_items, most_jobs, observe
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"regard {name}", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """The result of a job, as a future of the running event loop.

        Raises:
            Closed: after `close`.
            Full: if too many jobs wait.
        """
        job.future, job.arrived = asyncio.get_running_loop().create_future(), time.monotonic()
        with self._changed:
            if self._is_closed:
                raise Closed
            if len(self._jobs) >= self._most_jobs:
                raise Full
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Lets the thread end after the jobs that have come."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Waits for the end of the thread."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while jobs := self._next():
            self._compute(jobs)

    def _next(self) -> list[Job]:
        """The jobs that are computed next; none at the end."""
        with self._changed:
            while True:
                while self._jobs and self._jobs[0].is_given_up:
                    self._jobs.popleft()
                if self._jobs:
                    chosen, is_full = self._together()
                    left = self._jobs[0].arrived + self._wait - time.monotonic()
                    if is_full or self._is_closed or left <= 0:
                        taken = set(chosen)
                        self._jobs = deque(job for job in self._jobs if job not in taken and not job.is_given_up)
                        return chosen
                    self._changed.wait(left)
                elif self._is_closed:
                    return []
                else:
                    self._changed.wait()

    def _together(self) -> tuple[list[Job], bool]:
        """The oldest job with those that can be computed with it, and whether there is no room for more."""
        first, *others = self._jobs
        chosen, count = [first], len(first.items)
        if first.key is None or count >= self._most_items:
            return chosen, True
        for job in others:
            if job.key == first.key and not job.is_given_up:
                if count + len(job.items) > self._most_items:
                    return chosen, True
                chosen.append(job)
                count += len(job.items)
        return chosen, count == self._most_items

    def _compute(self, jobs: Sequence[Job]) -> None:
        """Computes jobs and sets their futures."""
        outcomes: list[tuple[Job, Any]] = []
        inputs: list[Any] = []
        readable: list[tuple[Job, int]] = []
        for job in jobs:
            try:
                read = [job.read(number, item) for number, item in enumerate(job.items)]
            except Exception as error:
                outcomes.append((job, error))
            else:
                readable.append((job, len(read)))
                inputs += read

        def check() -> None:
            if all(job.is_given_up for job, _ in readable):
                raise GivenUp

        try:
            if readable:
                self._observe(len(inputs))
                with stopping(check):
                    results = iter(readable[0][0].compute(inputs))
                for job, count in readable:
                    outcomes.append((job, job.answer([next(results) for _ in range(count)])))
        except Exception as error:
            if len(readable) > 1 and not isinstance(error, GivenUp):
                for job, _ in readable:
                    self._compute([job])
            else:
                outcomes += [(job, error) for job, _ in readable]
        _finish(outcomes)


def _finish(outcomes: Sequence[tuple[Job, Any]]) -> None:
    """Sets the futures of jobs, in the thread of their event loops."""

    def set_results() -> None:
        for job, outcome in outcomes:
            if job.future.done():
                continue
            if isinstance(outcome, BaseException):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

    if outcomes:
        outcomes[0][0].future.get_loop().call_soon_threadsafe(set_results)
