"""Kernels that are compiled at their first call and cached on disk where possible."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import extending

FAST = {"nsz", "arcp", "contract", "reassoc"}
"""LLVM's flags of arithmetic: ignore the sign of zero, multiply by a reciprocal, fuse a product with a sum, and reorder
sums, which vector instructions need for the sum of a row. NaN and infinity keep their meaning."""

DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()
"""The hash of this folder, whose functions kernels of several files share."""


def compiled(kernel: Callable[..., Any]) -> Any:
    """A kernel that releases the interpreter.

    It is cached beside the package, in the user's cache, or not at all if neither can be written.
    """
    # "numpy": x / 0 is infinite or NaN; Python's ZeroDivisionError would put a branch into every loop with a division
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FAST}
    try:
        return _dated(numba.njit(cache=True, **options)(kernel))
    except RuntimeError:  # no cache can be written
        return numba.njit(**options)(kernel)


def _dated(kernel: Any) -> Any:
    """Makes numba compile a cached kernel again when `DIGEST` changes, and not only with the kernel's file."""
    file: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        # numba caches this stamp with the kernels, which are stale if it differs
        file._source_stamp = file._source_stamp, DIGEST
    return kernel


def inlined(function: Callable[..., Any]) -> Any:
    """A subroutine of kernels whose sums are not reordered."""
    return numba.njit(error_model="numpy", fastmath={"contract"})(function)


def called(function: Callable[..., Any]) -> Any:
    """A large subroutine of kernels with their flags of arithmetic, which is called and not inlined.

    Only kernels can call it, as the wrapper for Python, which takes as long to compile, is left out.
    """
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": FAST}
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**options)(function)


def subroutine(function: Callable[..., Any]) -> Any:
    """A subroutine of kernels with their flags of arithmetic, inlined into each.

    Its loops become vector instructions before it is inlined, with a test at run time that rows that it writes do not
    overlap with other arguments. If they overlap, numbers are computed one by one.
    """
    return numba.njit(error_model="numpy", fastmath=FAST, forceinline=True)(function)


def intrinsic(maker: Callable[..., Any]) -> Any:
    """A function of LLVM instructions, from a function that returns its type and a builder of them."""
    return extending.intrinsic(maker)
