"""Freed memory is kept for the next tensors instead of being given back to the system.

glibc gives large blocks back as soon as they are freed, so every step of a training touches fresh pages, and the system
has to clear each of them first.
"""

from __future__ import annotations

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of the settings in glibc's malloc.h."""
BLOCK = 1 << 30
"""Bytes from which on a block is still borrowed from the system for itself alone, and given back when it is freed."""
UNUSED = (1 << 31) - 1
"""Bytes at the end of the heap above which memory is given back: the largest number that glibc takes."""
NAMES = ("mmap_threshold", "trim_threshold", "top_pad", "mmap_max")
"""Of what says how memory is kept: MALLOC_TOP_PAD_ in the environment, or glibc.malloc.top_pad in GLIBC_TUNABLES."""


def keep_memory() -> bool:
    """Tells glibc's allocator to keep what is freed, for the whole process and until its end.

    Nothing happens, and False is returned, where there is another allocator (musl, macOS, Windows; jemalloc or tcmalloc
    in LD_PRELOAD) or where the environment says something about it already: `MALLOC_TRIM_THRESHOLD_=131072 regard
    train …` trains as if this were not here.
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    said = any(f"MALLOC_{name.upper()}_" in os.environ or f"glibc.malloc.{name}=" in tunables for name in NAMES)
    if said or not sys.platform.startswith("linux"):
        return False
    try:
        glibc = ctypes.CDLL("libc.so.6")
        if _address(glibc.malloc) != _address(ctypes.CDLL(None).malloc):
            return False
        return bool(glibc.mallopt(M_MMAP_THRESHOLD, BLOCK) and glibc.mallopt(M_TRIM_THRESHOLD, UNUSED))
    except (OSError, AttributeError):
        return False


def _address(function: ctypes._NamedFuncPointer) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value
