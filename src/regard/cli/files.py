"""Files of predictions: a folder in which every input gets its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.standard import check_output
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.runs.contract import AbstractModel

LONGEST_NAME = 40
"""Letters of the text in the name of a file."""


@dataclass(frozen=True)
class PredictionFiles:
    """Writes the files of predictions.

    Raises:
        RegardError: for a folder that is a file.
    """

    folder: Path
    suffixes: Sequence[str]
    overwrite: bool

    def __post_init__(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise RegardError(f"--files {self.folder}: expected a folder; this is a file.")

    def check(self, number: int, text: str) -> None:
        """Refuses files that are there and may not be replaced, before their prediction is computed.

        Raises:
            RegardError: for such a file.
        """
        stem = self._stem(number, text)
        for suffix in self.suffixes:
            check_output(stem.with_name(f"{stem.name}.{suffix}"), overwrite=self.overwrite)

    def write(self, model: AbstractModel[Any], number: int, text: str, prediction: Any) -> Sequence[Path]:
        """Writes the files of a prediction, which are called by its number and the first letters of its text."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return model.write(prediction, self._stem(number, text))

    def _stem(self, number: int, text: str) -> Path:
        letters = "".join(c if c.isalnum() else "_" for c in text[:LONGEST_NAME]).strip("_")
        return self.folder / f"{number:04}_{letters}".rstrip("_")
