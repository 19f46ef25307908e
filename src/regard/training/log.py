"""The figures of a run: `metrics.jsonl`, and TensorBoard if it is wanted."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError, RegardError

RESERVED = ("kind", "step", "epoch", "timing")


class MetricsLog:
    """Appends lines to a file, each a JSON object with `kind` (train, validation or averaged), `step`, `epoch`,
    figures under their names, and `timing`, the only part in which two runs with one seed differ.

    Figures that are not finite become null, as JSON has no word for them. While it is open no other process can open
    the file like this, where the system has such locks.

    Raises:
        RegardError: if another process has it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("a", encoding="utf-8")
        self._writer: Any = None
        if _taken(self._file.fileno()):
            self._file.close()
            raise RegardError(f"{path.parent}: another process is training in this folder. Wait for it, or stop it.")

    def cut(self, step: int) -> None:
        """Cuts off the lines after a step, those of an end that was not finished, and one that a kill broke off."""
        length = 0
        for number, line in enumerate(self._path.read_bytes().splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):
                break
            try:
                entry = json.loads(line)
                if entry["step"] > step or entry["kind"] == "averaged":
                    break
            except (ValueError, KeyError, TypeError) as error:
                shown = line.decode(errors="replace").strip()
                raise DataError(
                    f"{self._path}:{number}: not a line of metrics: {shown:.80}. Mend it or remove it."
                ) from error
            length += len(line)
        self._file.truncate(length)

    def add_tensorboard(self, folder: Path, step: int) -> None:
        """Writes events too, and replaces those after a step."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError(
                "training.tensorboard is on, but tensorboard is not installed. "
                "Install it (pip install 'regard[log]') or switch it off.",
                ("training", "tensorboard"),
            ) from error
        self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def write(
        self, kind: str, step: int, epoch: int, figures: Mapping[str, float], timing: Mapping[str, float]
    ) -> None:
        """Appends a line."""
        clash = [name for name in RESERVED if name in figures]
        if clash:
            raise RegardError(f"A metric may not be called {clash[0]!r}: lines of metrics.jsonl have that already.")
        line: dict[str, Any] = {"kind": kind, "step": step, "epoch": epoch}
        line |= {name: _plain(value) for name, value in figures.items()}
        line["timing"] = {name: _plain(value) for name, value in timing.items()}
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()
        if self._writer is not None:
            for name, value in (*figures.items(), *timing.items()):
                self._writer.add_scalar(f"{kind}/{name}", float(value), step)

    def sync(self) -> None:
        """Flushes everything to the disk."""
        os.fsync(self._file.fileno())
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Ends writing."""
        self._file.close()
        if self._writer is not None:
            self._writer.close()


def _plain(value: float) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _taken(handle: int) -> bool:
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):  # Windows, or a file system without locks
        return False
    return False
