"""Kernels that are compiled at their first call and kept on disk where that is possible."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import extending

FAST = {"nsz", "arcp", "contract", "reassoc"}
"""LLVM's names of what a loop may do to arithmetic: ignore the sign of zero, multiply by a reciprocal, fuse a product
with a sum, and sum in another order, without which a sum over a row could not use vector instructions. NaN and
infinity keep their meaning."""

DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()
"""Stands for the text of this folder, which holds whatever kernels of several files share."""


def compiled(kernel: Callable[..., Any]) -> Any:
    """A kernel that releases the interpreter.

    Kept on disk beside the package or in the user's cache, or nowhere if neither can be written.
    """
    # "numpy": x / 0 is infinite or NaN; Python's ZeroDivisionError would put a branch into every loop that divides
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FAST}
    try:
        return _dated(numba.njit(cache=True, **options)(kernel))
    except RuntimeError:  # no place for a cache
        return numba.njit(**options)(kernel)


def _dated(kernel: Any) -> Any:
    """Makes numba compile a kept kernel again when `DIGEST` changes; by itself it looks only at the kernel's file."""
    file: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        # numba keeps this stamp with the kernels and takes them for stale where it differs
        file._source_stamp = file._source_stamp, DIGEST
    return kernel


def inlined(function: Callable[..., Any]) -> Any:
    """A subroutine of kernels whose sums keep their order."""
    return numba.njit(error_model="numpy", fastmath={"contract"})(function)


def called(function: Callable[..., Any]) -> Any:
    """A subroutine of kernels with their freedom of arithmetic that is called and not inlined: a large one.

    Only kernels can call it: what Python would need to is not compiled, which takes as long as the subroutine.
    """
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": FAST}
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**options)(function)


def subroutine(function: Callable[..., Any]) -> Any:
    """A subroutine of kernels with their freedom of arithmetic, inlined into each.

    Its loops become vector instructions before it is inlined, when the compiler does not know yet whether its arguments
    overlap. So a row that it writes must not overlap with any other argument: the test of that, made at run time, would
    fail, and the numbers be computed one by one.
    """
    return numba.njit(error_model="numpy", fastmath=FAST, forceinline=True)(function)


def intrinsic(maker: Callable[..., Any]) -> Any:
    """A function made of LLVM instructions, from a maker that returns its type and a builder of them."""
    return extending.intrinsic(maker)
