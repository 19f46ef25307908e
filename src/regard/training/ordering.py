"""A stream of items, processed by several processes and returned in order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Any, TypeVar

from regard.training import processes

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_order(items: Iterable[ItemT], work: Callable[[ItemT], ResultT]) -> Generator[ResultT, None, None]:
    """The result of `work` for each item, in order, in the first process; the others work too, and yield nothing.

    Only the first process reads the stream. Each process works on one item at a time, so memory does not grow with the
    stream. All processes end once the first one stops iterating or any of them fails.

    Args:
        items: the stream, read in the first process only.
        work: called in any process; items and results are pickled to travel between processes.

    Raises:
        Exception: in the first process, the error of `work`, after all results that come before it in order.
        ElsewhereError: in the others, if the first process cannot read on.
    """
    if processes.size() == 1:
        yield from map(work, items)
        return
    stream = iter(items)
    while batch := processes.first(lambda: list(islice(stream, processes.size()))):
        results = processes.gathered(_tried(work, batch))
        has_failed = any(error is not None for _, error in results)
        for result, error in results if processes.is_first() else ():
            if error is not None:
                raise error
            try:
                yield from result or ()
            except GeneratorExit:
                if not has_failed:  # the others still wait for items
                    processes.first(list)
                raise
        if has_failed:
            return


def _tried(work: Callable[[Any], Any], batch: list[Any]) -> tuple[tuple[Any] | None, Exception | None]:
    """The result of this process, if it has an item, or its error."""
    if processes.rank() >= len(batch):
        return None, None
    try:
        return (work(batch[processes.rank()]),), None
    except Exception as error:
        return None, error
