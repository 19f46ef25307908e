"""Kernels that release the interpreter, run over parts of the work by as many threads as torch uses."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import torch

ENOUGH = 1 << 17
"""Work below this many innermost steps for each thread is not worth handing over."""
SHARES = 4
"""Parts for each thread."""


def spread(kernel: Any, given: tuple[Any, ...], count: int, work: int) -> None:
    """Calls `kernel(*given, start, stop)` for parts that make up range(count).

    As many threads as torch has, fewer for little work, take the parts one by one. They are torch's own where these
    can be reached, else those of a pool, where the one that calls takes parts too and waits for nobody who has not
    begun. Several Python threads may come at once.

    Args:
        kernel: from `regard.ops.compiled`.
        work: all the innermost steps of all `count`.
    """
    everybody = torch.get_num_threads()
    hands = max(1, min(everybody, count, work // ENOUGH))
    if hands == 1:
        kernel(*given, 0, count)
        return
    from regard.ops.compiled import team

    pieces = min(count, hands * SHARES)
    if team.openmp() and not _forked:
        team.together(kernel, given, count, pieces, everybody)
    else:
        _pooled(kernel, given, count, pieces, hands)


def _pooled(kernel: Any, given: tuple[Any, ...], count: int, pieces: int, hands: int) -> None:
    left = list(pairwise(count * piece // pieces for piece in range(pieces + 1)))

    def take() -> None:
        while True:
            try:
                start, stop = left.pop()
            except IndexError:
                return
            kernel(*given, start, stop)

    others = [_pool(hands).submit(take) for _ in range(hands - 1)]
    take()
    for other in others:
        if not other.cancel():
            other.result()


_forked = False
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
    global _growing, _forked
    _growing, _forked = threading.Lock(), True
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
