"""Kernels that are compiled at their first call and kept on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import extending

FAST = {"nsz", "arcp", "contract", "reassoc"}
"""What a loop may do to arithmetic; NaN and infinity keep their meaning."""


def compiled(kernel: Callable[..., Any]) -> Any:
    """A kernel that releases the interpreter.

    Kept on disk beside the package or in the user's cache, or nowhere if neither can be written.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FAST}
    try:
        return numba.njit(cache=True, **options)(kernel)
    except RuntimeError:  # no place for a cache
        return numba.njit(**options)(kernel)


def inlined(function: Callable[..., Any]) -> Any:
    """A part of kernels whose sums keep their order."""
    return numba.njit(error_model="numpy", fastmath={"contract"})(function)


def intrinsic(maker: Callable[..., Any]) -> Any:
    """A function made of instructions, from one that says its type and builds them."""
    return extending.intrinsic(maker)
