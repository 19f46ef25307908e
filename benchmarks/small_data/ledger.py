"""The log of trainings: a JSON object a line, which a later command reads to go on where this one ended."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from plan import Training

FIELDS = tuple(field.name for field in dataclasses.fields(Training))


class Ledger:
    """Appends results to a file and knows which trainings it has.

    A line that a kill broke off is skipped with a warning. Several processes may append to one file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> list[dict[str, Any]]:
        """All results, oldest first."""
        if not self.path.exists():
            return []
        found = []
        for number, line in enumerate(self.path.read_bytes().splitlines(), start=1):
            try:
                found.append(json.loads(line))
            except ValueError:
                print(f"{self.path}:{number}: no result, skipped: {line[:60]!r}", file=sys.stderr)
        return found

    def find(self, training: Training) -> dict[str, Any] | None:
        """The latest result of a training that did not fail."""
        found = [entry for entry in self.entries() if "error" not in entry and training_of(entry).key == training.key]
        return found[-1] if found else None

    def append(self, training: Training, result: dict[str, Any]) -> None:
        """Writes a result, on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({**dataclasses.asdict(training), **result}, ensure_ascii=False) + "\n"
        with self.path.open("ab") as file:
            if _is_torn(self.path):
                file.write(b"\n")
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


def training_of(entry: dict[str, Any]) -> Training:
    """What an entry is the result of."""
    teachers = tuple(map(training_of, entry.get("teachers", ())))
    own = {name: entry[name] for name in FIELDS if name in entry}
    return Training(**own | {"overrides": tuple(entry["overrides"]), "teachers": teachers})


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if not file.tell():
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
