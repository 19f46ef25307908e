"""Items of data that cannot be read: the first raises an error, or all are collected and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from regard.data.finding import Finding, Severity
from regard.errors import DataError, counted

Kind = tuple[str, int]
"""File and line of the code that raises the errors of a kind."""


class Defects:
    """The errors of items that could not be read, grouped by kind.

    An error that is raised twice for the same item, as when a file is read twice, counts once.
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
        """A finding with the total, then one for each kind with its count and first items.

        Args:
            left_out: whether training continues without these items, which makes them warnings.
        """
        if not self._kinds:
            return ()
        severity: Severity = "warning" if left_out else "error"
        counts = f"{counted(len(self), 'defect|defects')} of {counted(len(self._kinds), 'kind|kinds')}"
        hint = "items with defects are left out"
        hint = hint if left_out else "data.on_error=skip leaves items with defects out of a training"
        total = Finding(severity, f"{counts}; {hint}", len(self))
        text = "items have the same kind of defect"
        return (total, *(Finding.of_messages(severity, text, list(each)) for each in self._kinds.values()))


_collected: ContextVar[Defects | None] = ContextVar("collected", default=None)


@contextmanager
def collecting() -> Iterator[Defects]:
    """Within the block, readers leave out the items that cannot be read and collect their errors.

    >>> with collecting() as defects:
    ...     for number, text in enumerate(("1", "one", "2"), start=1):
    ...         with item_or_defect:
    ...             if not text.isdecimal():
    ...                 raise DataError(f"numbers.txt:{number}: {text!r} is not a number.")
    >>> print(defects.findings(left_out=False)[1])
    error: numbers.txt:2: 'one' is not a number.
    """
    defects = Defects()
    token = _collected.set(defects)
    try:
        yield defects
    finally:
        _collected.reset(token)


class _ItemOrDefect:
    """Collects a DataError of its block within `collecting`; elsewhere raises it."""

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
"""A context for reading one item of a file, see `collecting`."""


def is_collecting() -> bool:
    """Whether defects are collected, in which case items that are read on demand have to be checked beforehand."""
    return _collected.get() is not None


def readable(count: int, read: Callable[[int], object]) -> list[int]:
    """The indices from 0 to `count - 1` that `read` reads without a DataError; the others are defects."""
    indices = []
    for index in range(count):
        with item_or_defect:
            read(index)
            indices.append(index)
    return indices


def _kind(error: BaseException) -> Kind:
    """The line of code that raised the error, or the error that it repeats with a place."""
    while isinstance(error.__context__, DataError):
        error = error.__context__
    trace = error.__traceback__
    if trace is None:
        return "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno
