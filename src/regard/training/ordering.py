"""Work on a long stream, shared among processes and given back in its order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Any, TypeVar

from regard.training import processes

GivenT = TypeVar("GivenT")
DoneT = TypeVar("DoneT")


def in_order(given: Iterable[GivenT], work: Callable[[GivenT], DoneT]) -> Generator[DoneT, None, None]:
    """What `work` makes of each thing, in order, in the first process; the others work along and yield nothing.

    Only the first process reads. As many things as there are processes are under way at once, so memory does not grow
    with the stream. Once the first process stops asking, or one of them fails, all end.

    Args:
        given: a stream, looked at in the first process only.
        work: called in any process; things and results travel between processes, pickled.

    Raises:
        Exception: in the first process, what the work failed with, after all that comes before in the order.
        ElsewhereError: in the others, when the first process cannot read on.
    """
    if processes.size() == 1:
        yield from map(work, given)
        return
    stream = iter(given)
    while batch := processes.first(lambda: list(islice(stream, processes.size()))):
        results = processes.gathered(_tried(work, batch))
        has_failed = any(error is not None for _, error in results)
        for done, error in results if processes.is_first() else ():
            if error is not None:
                raise error
            try:
                yield from done or ()
            except GeneratorExit:
                if not has_failed:  # the others wait for more
                    processes.first(list)
                raise
        if has_failed:
            return


def _tried(work: Callable[[Any], Any], batch: list[Any]) -> tuple[tuple[Any] | None, Exception | None]:
    """This process's result, if there is one for it, and its error."""
    if processes.rank() >= len(batch):
        return None, None
    try:
        return (work(batch[processes.rank()]),), None
    except Exception as error:
        return None, error
