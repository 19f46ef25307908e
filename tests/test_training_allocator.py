from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from regard.training import allocator

FAULTS = """
import json, resource, sys
import torch
from regard.training.allocator import keep_memory

kept = keep_memory() if sys.argv[1] == "keep" else None

def faults(size, times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.empty(size).fill_(1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

sizes = [1 << 24, 3 << 20]
for size in sizes:
    faults(size, 8)
pages = [8 * 4 * size / resource.getpagesize() for size in sizes]
shares = [min(faults(size, 8) for _ in range(3)) / count for size, count in zip(sizes, pages)]  # a system may take back
print(json.dumps([kept, shares]))
"""


def measured(what: str, **environment: str) -> tuple[bool | None, list[float]]:
    """What `keep_memory` said, and the share of pages of large tensors that are fresh ones."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", FAULTS, what]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**clean, **environment})
    kept, shares = json.loads(done.stdout)
    return kept, shares


needs_glibc = pytest.mark.skipif(
    not sys.platform.startswith("linux") or "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""),
    reason="only glibc is told to keep memory",
)


@needs_glibc
def test_large_tensors_come_back_without_fresh_pages() -> None:
    kept, shares = measured("keep")
    assert kept
    assert max(shares) < 0.01
    assert measured("leave")[1][0] > 0.9  # or else there would be nothing to do


@needs_glibc
@pytest.mark.parametrize(
    "variable", [{"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}]
)
def test_who_has_said_how_memory_is_kept_is_respected(variable: dict[str, str]) -> None:
    kept, shares = measured("keep", **variable)
    assert kept is False
    assert min(shares) > 0.9


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_left_alone(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert not allocator.keep_memory()


def test_a_system_without_glibc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str | None) -> Any:
        raise OSError(f"{name}: no such file")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(allocator.ctypes, "CDLL", missing)
    assert not allocator.keep_memory()


def test_another_allocator_in_its_place_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = iter([1, 2])
    monkeypatch.setattr(allocator, "_address", lambda function: next(addresses))
    assert not allocator.keep_memory()
