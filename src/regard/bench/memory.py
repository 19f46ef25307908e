"""Peak memory of one side, in a process of its own: what the system hands out, whoever asks for it.

    python -m regard.bench.memory additive plain '{"T": 40}'

prints the bytes beyond inputs, results and gradients. The high-water mark is the kernel's (Linux), so nothing that a
library keeps to itself is missed; a run at small sizes comes first, so that code and thread pools are not counted.
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
    """Whether this system tells a process its high-water mark and lets it be lowered."""
    return _RESET.exists() and os.access(_RESET, os.W_OK)


def extra(case: str, side: str, sizes: Mapping[str, int]) -> int:
    """Bytes that a side needs at its peak beyond its inputs, results and gradients; one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-m", "regard.bench.memory", case, side, json.dumps(dict(sizes))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


def _measure(name: str, side: str, sizes: Mapping[str, int]) -> int:
    import torch

    from regard.bench.cases import CASES

    case = CASES[name]
    torch.set_num_threads(1)
    case.contest(torch.float32, case.sized(quick=True)).sides[side]()
    job = case.contest(torch.float32, sizes).sides[side]
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _RESET.write_text("5")
    before = _kilobytes("VmRSS")
    answer = job()
    kept = sum(tensor.nbytes for tensor in answer.values())
    return max(0, 1024 * (_kilobytes("VmHWM") - before) - kept)


def _kilobytes(field: str) -> int:
    lines = _STATUS.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


if __name__ == "__main__":
    print(_measure(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
