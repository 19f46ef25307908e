"""Items of data that cannot be read: the first one is an error, or all are collected and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from regard.data.finding import Finding, Severity
from regard.errors import DataError, counted

Kind = tuple[str, int]
"""A kind of defect: the source line that raises its errors."""


class Defects:
    """The errors of items that could not be read, grouped by what is wrong.

    An error that is raised twice for the same item, as when a file is read for two purposes, counts once.
    """

    def __init__(self) -> None:
        self._kinds: dict[Kind, dict[str, None]] = {}

    def __len__(self) -> int:
        """The number of errors."""
        return sum(map(len, self._kinds.values()))

    def add(self, error: DataError) -> None:
        """Adds the error of an item."""
        self._kinds.setdefault(_kind(error), {}).setdefault(str(error))

    def findings(self, *, left_out: bool) -> tuple[Finding, ...]:
        """A finding for each kind, with its count and the first items, and before them one with the whole count.

        Args:
            left_out: whether training goes on without these items, so that they are no errors.
        """
        if not self._kinds:
            return ()
        severity: Severity = "warning" if left_out else "error"
        count, kinds = len(self), len(self._kinds)
        found = f"{counted(count, 'defect|defects')} of {counted(kinds, 'kind|kinds')}"
        hint = "items with defects are left out"
        hint = hint if left_out else "data.on_error=skip leaves items with defects out of a training"
        total = Finding(severity, f"{found}; {hint}", count)
        text = "items have the same kind of defect"
        return (total, *(Finding.of_messages(severity, text, list(each)) for each in self._kinds.values()))


_collected: ContextVar[Defects | None] = ContextVar("collected", default=None)


@contextmanager
def collecting() -> Iterator[Defects]:
    """Within the block readers leave out the items that cannot be read, and their errors are collected.

    >>> with collecting() as defects:
    ...     for number, text in enumerate(("1", "one", "2"), start=1):
    ...         with item_or_defect:
    ...             if not text.isdecimal():
    ...                 raise DataError(f"numbers.txt:{number}: {text!r} is no number.")
    >>> print(defects.findings(left_out=False)[1])
    error: numbers.txt:2: 'one' is no number.
    """
    defects = Defects()
    token = _collected.set(defects)
    try:
        yield defects
    finally:
        _collected.reset(token)


class _ItemOrDefect:
    """Reads one item: within `collecting` its DataError is collected and the block is left; elsewhere it is raised."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        defects = _collected.get()
        if defects is None or not isinstance(error, DataError):
            return False
        defects.add(error)
        return True


item_or_defect = _ItemOrDefect()
"""A context for the reading of one item of a file, see `collecting`."""


def is_collecting() -> bool:
    """Whether defects are collected, so that what is read on demand has to be looked through beforehand."""
    return _collected.get() is not None


def readable(count: int, read: Callable[[int], object]) -> list[int]:
    """The indices from 0 to `count - 1` of which `read` raises no DataError; the others are defects."""
    indices = []
    for index in range(count):
        with item_or_defect:
            read(index)
            indices.append(index)
    return indices


def _kind(error: BaseException) -> Kind:
    """The source line at which the error, or the one that it repeats with a place, was raised."""
    while isinstance(error.__context__, DataError):
        error = error.__context__
    trace = error.__traceback__
    if trace is None:
        return "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno
