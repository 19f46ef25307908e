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


def spread(kernel: Callable[[int, int], None], count: int, work: int) -> None:
    """Calls `kernel(start, stop)` for parts that make up range(count).

    One part for each of torch's threads, fewer for little work. A thread of torch's own pool never waits for ours,
    and several Python threads may come at once: they share one pool, and each takes a part itself.

    Args:
        work: all the innermost steps of all `count`.
    """
    parts = max(1, min(torch.get_num_threads(), count, work // ENOUGH))
    cuts = [count * part // parts for part in range(parts + 1)]
    if parts == 1:
        kernel(0, count)
        return
    waiting = [_pool(parts).submit(kernel, start, stop) for start, stop in pairwise(cuts[1:])]
    kernel(cuts[0], cuts[1])
    for part in waiting:
        part.result()


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
