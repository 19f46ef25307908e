"""Batches prepared ahead of their use, in another thread and in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

ItemT = TypeVar("ItemT")
MadeT = TypeVar("MadeT")

DEPTH = 4
"""The number of items that are ready or in preparation."""


class Prefetch(Generic[ItemT, MadeT]):
    """Iterates over pairs of an item and the result of `make` for it, which is computed in another thread.

    An error of `make` is raised when its item is due. `waited` is the number of seconds that the consumer has waited.
    As a context manager it ends the thread on leaving.
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
