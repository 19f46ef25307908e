"""A description of the machine, and how fast it multiplies and copies."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from regard import __version__
from speed.case import Work
from speed.clock import Quartiles, turns


@dataclass(frozen=True, slots=True)
class Rates:
    """What this machine does per second, measured.

    Args:
        operations: of a product of two square matrices.
        traffic: bytes read and written by a copy.
    """

    operations: float
    traffic: float

    def seconds(self, work: Work) -> float:
        """The least time for this work: that of its arithmetic or of its traffic, whichever is longer."""
        return max(work.operations / self.operations, work.traffic / self.traffic)


def measure_rates(
    *,
    rounds: int,
    width: int = 1024,
    megabytes: int = 256,
    dtype: torch.dtype = torch.float32,
    clock: Callable[[], float] = time.perf_counter,
) -> Rates:
    """The rates with the current number of torch's threads, on its default device.

    Args:
        rounds: as in `turns`.
        width: of the matrices.
        megabytes: how many are copied.
        dtype: of the matrices.
        clock: as in `turns`.
    """
    a, b, out = (torch.randn(width, width).to(dtype) for _ in range(3))
    source = torch.zeros(megabytes << 18)
    target = torch.empty_like(source)
    sides = {"product": lambda: torch.mm(a, b, out=out), "copy": lambda: target.copy_(source)}
    seconds = turns(sides, rounds=rounds, turn=0.02, clock=clock)
    product, copy = (Quartiles.of(seconds[name]).median for name in sides)
    return Rates(2 * width**3 / product, 2 * source.nbytes / copy)


def describe() -> str:
    """Processor, cores, load and versions, on one line."""
    load = f"load {os.getloadavg()[0]:.1f} before" if hasattr(os, "getloadavg") else "load unknown"
    return (
        f"{_processor()}, {os.cpu_count()} cores, {load}; {platform.system()}, Python {platform.python_version()}, "
        f"torch {torch.__version__}, regard {__version__}; float32"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
