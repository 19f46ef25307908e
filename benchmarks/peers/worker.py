"""One program in a process of its own: makes its jobs, then does them when told.

    python worker.py NAME THREADS QUICK

reads a line `JOB SECONDS` and answers with the seconds a call, over as many calls as fill that time.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import sys
import time
import warnings
from importlib.machinery import ModuleSpec
from unittest.mock import MagicMock

import sizes
from environments import ENVIRONMENTS


def absent(name: str) -> None:
    """Lets `import name` succeed without the package."""
    sys.modules[name] = MagicMock(__spec__=ModuleSpec(name, None), __path__=[])


def seconds(job, calls: int) -> float:
    """Of one call."""
    start = time.perf_counter()
    for _ in range(calls):
        job()
    return (time.perf_counter() - start) / calls


def main() -> None:
    name, threads, quick = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "quick"
    answers = sys.stdout
    sys.stdout = sys.stderr
    warnings.filterwarnings("ignore")
    for package in ENVIRONMENTS[name].absent if name in ENVIRONMENTS else ():
        absent(package)
    peer = importlib.import_module(name)
    version, jobs = peer.jobs(
        sizes.QUICK if quick else sizes.FULL, sizes.QUICK_LAYER if quick else sizes.LAYER, threads
    )
    once = {}
    for job, function in jobs.items():
        function()
        once[job] = seconds(function, 1)
    gc.collect()
    gc.disable()
    print(json.dumps({"version": version, "jobs": list(jobs)}), file=answers, flush=True)
    for line in sys.stdin:
        job, least = line.split()
        print(seconds(jobs[job], max(1, math.ceil(float(least) / once[job]))), file=answers, flush=True)


if __name__ == "__main__":
    main()
