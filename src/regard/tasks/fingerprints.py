"""SHA-256 of files: which ones a model was trained on, so that no metric is computed on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from regard.data.lines import reason
from regard.errors import DataError
from regard.training.files import checksum

if TYPE_CHECKING:
    from regard.tasks.contract import DataFile

DAMAGED = "If it is damaged, copy it again from its origin, or train again."


def fingerprint(path: Path | str) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    try:
        return checksum(Path(path))
    except OSError as error:
        raise DataError(f"{path}: {reason(Path(path), error)}") from None


def training_files(fingerprints: Mapping[str, str]) -> set[str]:
    """The fingerprints of the files that a model, or the model it started from, was trained on."""
    return {value for name, value in fingerprints.items() if "train" in name.split(".")}


def fingerprints(files: Iterable[DataFile]) -> dict[str, str]:
    """SHA-256 of the files of a configuration, by name."""
    return {file.name: fingerprint(file.path) for file in files}
