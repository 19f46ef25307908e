"""The log of a run's metrics: `metrics.jsonl`, and TensorBoard if configured."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError, RegardError
from regard.files import writing

LOG = "metrics.jsonl"
LINE_KEYS = ("kind", "step", "epoch", "timing")


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines of the log of a run folder; none without it.

    Raises:
        DataError: for a file that is not a log.
    """
    path = folder / LOG
    if not path.is_file():
        return []
    try:
        entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if any(not isinstance(entry, dict) or {*LINE_KEYS} - entry.keys() for entry in entries):
            raise ValueError(f"a line lacks {' or '.join(LINE_KEYS)}")
        return entries
    except ValueError as error:
        raise DataError(f"{path}: not the metrics of a run ({error}).") from None


class MetricsLog:
    """Appends lines to a file, each a JSON object with `kind` (train, validation or averaged), `step`, `epoch`, metrics
    by name, and `timing`, the only part in which two runs with the same seed differ. Non-finite values become null.

    Raises:
        RegardError: if the file cannot be written, for example because the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with writing(path):
            self._file = path.open("a", encoding="utf-8")
        self._writer: Any = None

    def cut(self, step: int) -> None:
        """Removes the lines after a step, those of the end of a run, and a line that a kill truncated."""
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
                    f"{self._path}:{number}: not a line of metrics: {shown:.80}. Correct or remove it."
                ) from error
            length += len(line)
        self._file.truncate(length)

    def add_tensorboard(self, folder: Path, step: int) -> None:
        """Also writes TensorBoard events, and replaces those after a step."""
        check_tensorboard()
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def write(
        self, kind: str, step: int, epoch: int, figures: Mapping[str, float], timing: Mapping[str, float]
    ) -> None:
        """Appends a line."""
        clash = [name for name in LINE_KEYS if name in figures]
        if clash:
            raise RegardError(f"A metric may not be named {clash[0]!r}, which is another value in metrics.jsonl.")
        line: dict[str, Any] = {"kind": kind, "step": step, "epoch": epoch}
        line |= {name: _plain(value) for name, value in figures.items()}
        line["timing"] = {name: _plain(value) for name, value in timing.items()}
        with writing(self._path):
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()
        if self._writer is not None:
            for name, value in (*figures.items(), *timing.items()):
                self._writer.add_scalar(f"{kind}/{name}", float(value), step)

    def sync(self) -> None:
        """Flushes everything to the disk."""
        with writing(self._path):
            os.fsync(self._file.fileno())
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Closes the files."""
        with suppress(OSError):  # a full disk was reported by `write`
            self._file.close()
        if self._writer is not None:
            self._writer.close()


def check_tensorboard() -> None:
    """Raises `ConfigError` for `training.tensorboard` if tensorboard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise ConfigError(
            "training.tensorboard is on, but tensorboard is not installed. "
            "Install it (pip install 'regard[log]') or switch it off.",
            ("training", "tensorboard"),
        )


def _plain(value: float) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
