"""Ends searches whose results nobody waits for any longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Check = Callable[[], object]
"""Called before every step of a search, and after every batch; what it raises ends the prediction."""
_CHECK: ContextVar[Check | None] = ContextVar("check", default=None)


@contextmanager
def stopping(check: Check) -> Iterator[None]:
    """Inside the block every search and free run calls `check` before each of its steps.

    >>> from regard.decoding import SimpleDecoder, search
    >>> import torch
    >>> decoder = SimpleDecoder(lambda source: (source, None), lambda ids, memory, _: (torch.zeros(len(ids), 1), None))
    >>> def check():
    ...     raise TimeoutError("nobody waits")
    >>> with stopping(check):
    ...     search(decoder, decoder.prepare(torch.zeros(1, 4)), bos=0, eos=0, max_length=5)
    Traceback (most recent call last):
    TimeoutError: nobody waits
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_stop() -> None:
    """Calls the check of the block around, if there is one."""
    if (check := _CHECK.get()) is not None:
        check()
