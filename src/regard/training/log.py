"""The figures of a run: `metrics.jsonl`, and TensorBoard if it is wanted."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError, RegardError
from regard.training.files import replace_text

RESERVED = ("kind", "step", "epoch", "timing")


class MetricsLog:
    """Appends lines to a file, each a JSON object with `kind` (train, validation or averaged), `step`, `epoch`,
    figures under their names, and `timing`, the only part in which two runs with one seed differ.

    Figures that are not finite become null, as JSON has no word for them.

    Args:
        path: of the file.
        step: the step to continue after: later lines, and those of an unfinished end, are cut off.
        tensorboard: a folder for events, or None.
    """

    def __init__(self, path: Path, *, step: int, tensorboard: Path | None = None) -> None:
        self._writer = None if tensorboard is None else _writer(tensorboard, step)
        _cut(path, step)
        self._file = path.open("a", encoding="utf-8")

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


def _cut(path: Path, step: int) -> None:
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").split("\n")
    kept = []
    for number, line in enumerate(lines, start=1):
        if number == len(lines):  # empty, or broken off by a kill
            break
        try:
            entry = json.loads(line)
            keep = entry["step"] <= step and entry["kind"] != "averaged"
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}:{number}: not a line of metrics: {line:.80}. Mend it or remove it.") from error
        if keep:
            kept.append(line + "\n")
    replace_text(path, "".join(kept))


def _writer(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "training.tensorboard is on, but tensorboard is not installed. "
            "Install it (pip install 'regard[log]') or switch it off.",
            ("training", "tensorboard"),
        ) from error
    return SummaryWriter(str(folder), purge_step=step + 1)
