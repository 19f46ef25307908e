"""A program in a process of its own: one thread, its output in a file, its CPU time counted."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Failed(Exception):
    """A program ended with another status than 0."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a program took: seconds of processors, its children's included, and on the clock."""

    cpu: float
    wall: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cpu + other.cpu, self.wall + other.wall)


def run(
    command: Sequence[str | Path],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Cost:
    """Runs a program to its end.

    Args:
        log: where its output and errors are appended.
        environment: set beside what is set anyway.
        folder: to run in.

    Raises:
        Failed: with the last line that it wrote.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    variables = {**os.environ, **ONE_THREAD, "CUDA_VISIBLE_DEVICES": "", "PYTHONUTF8": "1", **(environment or {})}
    start = time.monotonic()
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=variables, cwd=folder
        )
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no output"]
        raise Failed(f"{Path(command[0]).name} ended with status {process.returncode}: {lines[-1]} ({log})")
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - start)
