"""Freed memory is kept for the next tensors instead of being returned to the system.

glibc returns large blocks when they are freed, so every training step would use fresh pages, which the system clears
first.
"""

from __future__ import annotations

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Numbers of settings in glibc's malloc.h."""
MMAP_BYTES = 1 << 30
"""The size from which blocks are still mapped separately, and returned when freed."""
TRIM_BYTES = (1 << 31) - 1
"""The free bytes at the end of the heap above which memory is returned; the largest that glibc accepts."""
SETTINGS = ("mmap_threshold", "trim_threshold", "top_pad", "mmap_max")
"""Settings of users, such as MALLOC_TOP_PAD_ in the environment or glibc.malloc.top_pad in GLIBC_TUNABLES."""


def keep_memory() -> bool:
    """Makes glibc's allocator keep freed memory until the process ends; returns whether it does.

    Does nothing with another allocator (musl, macOS, Windows; jemalloc or tcmalloc in LD_PRELOAD) or if the environment
    has such a setting: `MALLOC_TRIM_THRESHOLD_=131072 regard train …` trains with glibc's usual behaviour.
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    is_set = any(f"MALLOC_{name.upper()}_" in os.environ or f"glibc.malloc.{name}=" in tunables for name in SETTINGS)
    if is_set or not sys.platform.startswith("linux"):
        return False
    try:
        glibc = ctypes.CDLL("libc.so.6")
        if _address(glibc.malloc) != _address(ctypes.CDLL(None).malloc):
            return False
        return bool(glibc.mallopt(M_MMAP_THRESHOLD, MMAP_BYTES) and glibc.mallopt(M_TRIM_THRESHOLD, TRIM_BYTES))
    except (OSError, AttributeError):
        return False


def _address(function: ctypes._NamedFuncPointer) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value
