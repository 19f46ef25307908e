"""The progress of long predictions and evaluations, for those who show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from regard.decoding.stopping import check_stop

BatchT = TypeVar("BatchT")
Observer = Callable[[int, float], object]
"""Called after every batch with the number of its items, and the share of the work that is done, from 0 to 1."""
_OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Inside the block the observer is called after every batch of `observed`."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def observed(batches: Iterable[BatchT], work: Callable[[BatchT], tuple[int, float]], total: float) -> Iterator[BatchT]:
    """The batches, with a call of the observer, if there is one, when each is done.

    Args:
        work: the number of a batch's items, and its work in any unit.
        total: the work of all batches.

    >>> with observing(lambda count, share: print(count, share)):
    ...     list(observed([[1, 2], [3]], lambda batch: (len(batch), len(batch)), total=4))
    2 0.5
    1 0.75
    [[1, 2], [3]]
    """
    observer, done = _OBSERVER.get(), 0.0
    for batch in batches:
        yield batch
        check_stop()
        if observer is not None:
            count, cost = work(batch)
            done += cost
            observer(count, min(done / total, 1.0) if total else 1.0)
