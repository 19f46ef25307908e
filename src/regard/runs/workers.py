"""Workers of a Ray cluster, each with its own copy of a model, that share the items of a stream."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from operator import itemgetter
from typing import Any, Generic, Self, TypeVar

from regard.errors import RegardError
from regard.runs.cluster import Cluster
from regard.training.allocator import keep_memory
from regard.training.device import choose

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
BUFFERED = 4
"""The most items for each worker that are read before all earlier results have been taken."""
ATTEMPTS = 5
"""How often an item is given to a worker, if workers end while they have it."""
PATIENCE = 60.0
"""Seconds without any worker until a message says so."""
NEW = -1
"""The place of an item's number for a worker that has not begun."""


class ModelWorker(Generic[ItemT, ResultT]):
    """What runs in a process of the cluster.

    Args:
        shared: a model and a function that uses it, of which this process has copies.
        device: cpu or cuda.
    """

    def __init__(self, shared: tuple[Any, Callable[[ItemT], ResultT]], device: str) -> None:
        model, self._work = shared
        model.module.to(choose(device))
        if model.device.type == "cpu":
            keep_memory()

    def ready(self) -> None:
        """Returns when the worker has begun."""

    def tried(self, item: ItemT) -> tuple[ResultT | None, Exception | None]:
        """The result for an item, or the error."""
        try:
            return self._work(item), None
        except Exception as error:
            return None, error


class WorkerPool(Generic[ItemT, ResultT]):
    """Workers of a cluster, each of which has one item at a time; a context that ends them.

    A worker that ends, or whose machine does, is replaced when the cluster has room, and others repeat its item.

    Args:
        model: that which `work` uses, on the CPU; workers with a GPU move their copies there.
        work: a function of an item; it and its results are pickled.
        name: describes an item in messages.
        tell: is given messages.
    """

    def __init__(
        self,
        cluster: Cluster,
        model: Any,
        work: Callable[[ItemT], ResultT],
        *,
        name: Callable[[ItemT], str],
        tell: Callable[[str], object],
    ) -> None:
        self._cluster, self._ray, self._name, self._tell = cluster, cluster.ray, name, tell
        self._kind, self._shared = cluster.remote(ModelWorker), cluster.ray.put((model, work))
        self._starting: dict[Any, Any] = {}  # the workers by Ray's reference of the call
        self._running: dict[Any, tuple[Any, int, ItemT]] = {}
        self._idle: list[Any] = []
        self._repeated: list[tuple[int, ItemT]] = []
        self._results: dict[int, tuple[ResultT | None, Exception | None]] = {}
        self._ends: Counter[int] = Counter()  # of workers, by the number of their item; of new ones since one has begun

    def __enter__(self) -> Self:
        for _ in range(self._cluster.num_workers):
            self._start()
        return self

    def __exit__(self, *error: object) -> None:
        for worker in [*self._starting.values(), *self._idle, *(worker for worker, *_ in self._running.values())]:
            self._ray.kill(worker)

    def in_order(self, items: Iterable[ItemT]) -> Generator[ResultT, None, None]:
        """The result for each item of a stream, in order, as `processes.in_order`; only this process reads it.

        Items and results in memory are limited by the number of workers.

        Raises:
            Exception: the error of the function or of the stream, after all results that come before it in order.
            RegardError: if no worker can begin, or if workers end with the same item again and again.
        """
        stream, is_read, most = iter(items), False, BUFFERED * self._cluster.num_workers
        done = count = 0
        while True:
            while self._idle and (self._repeated or not (is_read or count - done >= most)):
                if self._repeated:
                    self._give(*self._repeated.pop(0))
                    continue
                try:
                    self._give(count, next(stream))
                except StopIteration:
                    is_read = True
                    continue
                except Exception as error:
                    self._results[count], is_read = (None, error), True
                count += 1
            if done in self._results:
                result, failure = self._results.pop(done)
                if failure is not None:
                    raise failure
                done += 1
                yield result  # type: ignore[misc]
            elif is_read and done == count:
                return
            else:
                self._wait()

    def _start(self) -> None:
        worker = self._kind.remote(self._shared, "cuda" if self._cluster.uses_gpus else "cpu")
        self._starting[worker.ready.remote()] = worker

    def _give(self, number: int, item: ItemT) -> None:
        worker = self._idle.pop()
        self._running[worker.tried.remote(item)] = worker, number, item

    def _wait(self) -> None:
        """Waits for a result, or for a worker that begins."""
        has_worker = bool(self._running or self._idle)
        calls, _ = self._ray.wait([*self._running, *self._starting], timeout=None if has_worker else PATIENCE)
        if not calls:
            kind = "GPU" if self._cluster.uses_gpus else "CPU"
            self._tell(f"waiting for a worker: the cluster has no free {kind}, or it takes long to begin.")
        for call in calls:
            is_new = call in self._starting
            worker, number, item = (self._starting.pop(call), NEW, None) if is_new else self._running.pop(call)
            try:
                value = self._ray.get(call)
            except self._ray.exceptions.RayTaskError:  # of what cannot be pickled; errors of the function are values
                raise
            except self._ray.exceptions.RayError as error:
                self._replace(worker, number, item, error)
                continue
            self._idle.append(worker)
            if is_new:
                self._ends[NEW] = 0
            else:
                self._results[number] = value

    def _replace(self, worker: Any, number: int, item: ItemT | None, error: Any) -> None:
        """Starts another worker in place of one that has ended, and keeps its item for the next that is idle."""
        self._ray.kill(worker)
        self._ends[number] += 1
        what = "before it began" if item is None else f"with {self._name(item)}"
        if getattr(error, "actor_init_failed", False):
            raise RegardError(f"a worker of the cluster cannot begin:\n{error}")
        if self._ends[number] >= ATTEMPTS + (self._cluster.num_workers if item is None else 0):
            raise RegardError(f"{self._ends[number]} workers of the cluster have ended {what}; the last one:\n{error}")
        reason = str(error).strip().splitlines()[-1].strip()
        self._tell(f"a worker of the cluster has ended {what}; another one takes its place: {reason}")
        if item is not None:
            insort(self._repeated, (number, item), key=itemgetter(0))
        self._start()
