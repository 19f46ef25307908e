"""The temperatures of a model's confidences, and their file in its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.files import replace_text
from regard.metrics.calibration import Reliability, reliability

CALIBRATION = "calibration.json"
OUTPUT = "output"
"""The unit of most confidences: the whole output."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a model states its confidence (docs/confidence.md).

    Args:
        temperatures: by unit, `output` for all models.
        items: the number of held-out items that they were fitted to.
        weights: the digest of the weights that they belong to; empty before they are saved.
    """

    temperatures: Mapping[str, float]
    items: int
    weights: str = ""

    def save(self, folder: Path, weights: str) -> None:
        """Writes `calibration.json` for the weights of this digest."""
        values = {"temperatures": dict(self.temperatures), "items": self.items, "weights": weights}
        replace_text(folder / CALIBRATION, json.dumps(values, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path, weights: str) -> Calibration | None:
        """The calibration of a folder; None if there is none of the weights of this digest.

        Raises:
            DataError: for a file with other values than those that `save` writes.
        """
        path = folder / CALIBRATION
        if not path.is_file():
            return None
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            temperatures = {str(unit): float(value) for unit, value in values["temperatures"].items()}
            if not all(math.isfinite(value) and value > 0 for value in temperatures.values()):
                raise ValueError("temperatures are positive numbers")
            result = cls(temperatures, int(values["items"]), str(values["weights"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}: not the calibration of a model ({error!s:.100}).\n"
                "  Remove the file; the model then is not calibrated."
            ) from None
        return result if result.weights == weights else None


def reliability_of(scored: Iterable[Any]) -> Reliability | None:
    """The confidences of the items of an evaluation against what is right; None for models without confidences."""
    pairs = [(each.confidence, each.is_right) for each in scored if getattr(each, "confidence", None) is not None]
    return reliability([pair[0] for pair in pairs], [pair[1] for pair in pairs]) if pairs else None
