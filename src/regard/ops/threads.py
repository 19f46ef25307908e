"""Kernels that release the interpreter, run over parts of the work by as many threads as torch uses."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import torch

GRAIN_SIZE = 1 << 17
"""The fewest innermost steps for which another thread is used."""
PIECES_PER_THREAD = 4
"""Parts for each thread."""


def parallel_for(kernel: Any, arguments: tuple[Any, ...], count: int, work: int) -> None:
    """Calls `kernel(*arguments, start, stop)` for parts that make up range(count).

    As many threads as torch has, or fewer for little work, take the parts one by one: torch's own threads where these
    are accessible, otherwise those of a pool and the calling thread. Several Python threads may call it at once.

    Args:
        kernel: from `regard.ops.kernels.compiled`.
        work: the innermost steps of all parts.
    """
    num_threads = torch.get_num_threads()
    workers = max(1, min(num_threads, count, work // GRAIN_SIZE))
    if workers == 1:
        kernel(*arguments, 0, count)
        return
    from regard.ops.kernels.compiled import team

    # several parts for each thread, so that faster threads take more of them
    pieces = min(count, workers * PIECES_PER_THREAD)
    # a forked process must not enter OpenMP, whose threads exist in its parent only
    if team.openmp() and not _forked:
        team.together(kernel, arguments, count, pieces, num_threads)
    else:
        _pooled(kernel, arguments, count, pieces, workers)


def _pooled(kernel: Any, arguments: tuple[Any, ...], count: int, pieces: int, workers: int) -> None:
    ranges = list(pairwise(count * piece // pieces for piece in range(pieces + 1)))

    def take() -> None:
        while True:
            try:
                start, stop = ranges.pop()  # atomic
            except IndexError:
                return
            kernel(*arguments, start, stop)

    helpers = [_pool(workers).submit(take) for _ in range(workers - 1)]
    take()
    # no part is left: helpers that have not begun are cancelled, results of the others raise their errors
    for helper in helpers:
        if not helper.cancel():
            helper.result()


_forked = False
_growing = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(size: int) -> ThreadPoolExecutor:
    """A pool of at least this many threads; sizes are powers of two, so that there are few pools."""
    with _growing:
        capacity = 1 << (size - 1).bit_length()
        if capacity not in _pools:
            _pools[capacity] = ThreadPoolExecutor(capacity, thread_name_prefix="regard-kernel")
        return _pools[capacity]


def _forget() -> None:
    """For forked processes, which have none of their parent's threads, but its locks as they were."""
    global _growing, _forked
    _growing, _forked = threading.Lock(), True
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
