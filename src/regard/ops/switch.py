"""The switch that turns fast ways off, so that they can be compared with the plain one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PLAIN: ContextVar[bool] = ContextVar("regard_plain", default=False)


@contextmanager
def plain() -> Iterator[None]:
    """Within it models call their modules one by one and operations are computed by torch's.

    Loops of steps share nothing (`ops.over_steps`), and no kernels of ours are taken: results and gradients are the
    same to rounding, and `explain` says "switched off". It holds for the thread, or the asynchronous task, that enters
    it; a graph that was made outside of it runs backward as it was made. What is compiled by `torch.compile` has its
    ways already.

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
    """Why no fast way is taken within `plain`, or None outside."""
    return "switched off by regard.plain()" if _PLAIN.get() else None
