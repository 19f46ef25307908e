"""Kernels that release the interpreter, run over parts of the work by as many threads as torch uses."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

ENOUGH = 1 << 19
"""Work below this many innermost steps for each thread is not worth handing over."""
SHARES = 4
"""Parts for each thread."""


def spread(kernel: Callable[[int, int], None], count: int, work: int) -> None:
    """Calls `kernel(start, stop)` for parts that make up range(count).

    As many threads as torch has, fewer for little work, take the parts one by one; the one that calls takes them too
    and waits for nobody who has not begun, so that a busy machine costs little. Several Python threads may come at
    once: they share one pool, and none of them needs it.

    Args:
        work: all the innermost steps of all `count`.
    """
    hands = max(1, min(torch.get_num_threads(), count, work // ENOUGH))
    if hands == 1:
        kernel(0, count)
        return
    pieces = min(count, hands * SHARES)
    left = list(pairwise(count * piece // pieces for piece in range(pieces + 1)))

    def take() -> None:
        while True:
            try:
                start, stop = left.pop()
            except IndexError:
                return
            kernel(start, stop)

    others = [_pool(hands).submit(take) for _ in range(hands - 1)]
    take()
    for other in others:
        if not other.cancel():
            other.result()


_growing = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(size: int) -> ThreadPoolExecutor:
    with _growing:
        room = 1 << (size - 1).bit_length()
        if room not in _pools:
            _pools[room] = ThreadPoolExecutor(room, thread_name_prefix="regard-kernel")
        return _pools[room]


def _forget() -> None:
    """A forked process has none of its parent's threads, and nobody to open a lock that one of them held."""
    global _growing
    _growing = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
