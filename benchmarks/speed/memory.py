"""The peak memory of one side, in a separate process: all memory that the system gives, whoever allocates it.

    python -m speed.memory additive plain '{"T": 40}'

prints the bytes beyond inputs, results and gradients. The high-water mark is that of the Linux kernel, so the memory of
every library counts; a run at small sizes comes first, so that code and thread pools do not count.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def available() -> bool:
    """Whether a process can read and reset its high-water mark on this system."""
    return _RESET.exists() and os.access(_RESET, os.W_OK)


def extra(case: str, side: str, sizes: Mapping[str, int]) -> int:
    """The peak memory of a side beyond its inputs, results and gradients, in bytes, with one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-m", "speed.memory", case, side, json.dumps(dict(sizes))]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(process.stdout)


def _measure(name: str, side: str, sizes: Mapping[str, int]) -> int:
    import torch

    from speed.cases import CASES

    case = CASES[name]
    torch.set_num_threads(1)
    case.contest(torch.float32, case.sized(quick=True)).sides[side]()
    job = case.contest(torch.float32, sizes).sides[side]
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _RESET.write_text("5")
    before = _kilobytes("VmRSS")
    answer = job()
    results = sum(tensor.nbytes for tensor in answer.values())
    return max(0, 1024 * (_kilobytes("VmHWM") - before) - results)


def _kilobytes(field: str) -> int:
    lines = _STATUS.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


if __name__ == "__main__":
    print(_measure(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
