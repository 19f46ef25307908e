"""`plain`: a switch that turns fast paths off, to compare them with torch's operations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PLAIN: ContextVar[bool] = ContextVar("regard_plain", default=False)


@contextmanager
def plain() -> Iterator[None]:
    """Within it models call all of their modules, and operations are computed by torch's.

    Loops of steps share nothing (`ops.over_steps`) and no kernels of ours are used. Results and gradients are equal to
    rounding, and `explain` prints "switched off". It applies to the thread, or asynchronous task, that enters it. The
    backward pass of a graph made outside, and compiled programs, are not affected.

    >>> with plain():
    ...     switched_off()
    'switched off by regard.plain()'
    """
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def switched_off() -> str | None:
    """The reason against fast paths within `plain`, or None outside."""
    return "switched off by regard.plain()" if _PLAIN.get() else None
