"""Kernels that are compiled at their first call and kept on disk where that is possible."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import extending

FAST = {"nsz", "arcp", "contract", "reassoc"}
"""What a loop may do to arithmetic; NaN and infinity keep their meaning."""

PARTS = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()
"""Stands for this room's text: whatever kernels of several files share is in it."""


def compiled(kernel: Callable[..., Any]) -> Any:
    """A kernel that releases the interpreter.

    Kept on disk beside the package or in the user's cache, or nowhere if neither can be written.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FAST}
    try:
        return _dated(numba.njit(cache=True, **options)(kernel))
    except RuntimeError:  # no place for a cache
        return numba.njit(**options)(kernel)


def _dated(kernel: Any) -> Any:
    """numba takes a kept kernel for new until its own file changes; here also until a part of it does."""
    file: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = file._source_stamp, PARTS
    return kernel


def inlined(function: Callable[..., Any]) -> Any:
    """A part of kernels whose sums keep their order."""
    return numba.njit(error_model="numpy", fastmath={"contract"})(function)


def part(function: Callable[..., Any]) -> Any:
    """A part of kernels whose arithmetic is theirs.

    It becomes vector instructions first and stands in them then, without a call. So what it writes must not overlap
    with anything else that it is given, or it takes the numbers one by one.
    """
    return numba.njit(error_model="numpy", fastmath=FAST, forceinline=True)(function)


def intrinsic(maker: Callable[..., Any]) -> Any:
    """A function made of instructions, from one that says its type and builds them."""
    return extending.intrinsic(maker)
