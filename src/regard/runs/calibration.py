"""The temperatures of a model's confidences, and their file in its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.errors import DataError, counted
from regard.files import replace_text
from regard.metrics.calibration import Reliability, calibration_error, reliability

CALIBRATION = "calibration.json"
OUTPUT = "output"
"""The unit of most confidences: the whole output."""
FEWEST = 20
"""The fewest held-out items to which temperatures are fitted."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a model states its confidence (docs/confidence.md).

    Args:
        temperatures: by unit, `output` for all models.
        items: the number of held-out items that they were fitted to.
        before, after: the calibration error of these items at temperature 1, and at these temperatures.
        weights: the digest of the weights that they belong to; empty before they are saved.
    """

    temperatures: Mapping[str, float]
    items: int
    before: float
    after: float
    weights: str = ""

    @classmethod
    def fitted(
        cls, temperatures: Mapping[str, float], before: Any, after: Any, is_right: Sequence[bool]
    ) -> Calibration:
        """Temperatures that were fitted to items.

        Args:
            before, after: the confidences of the items at temperature 1 and at these temperatures.

        Raises:
            DataError: for too few items.
        """
        if len(is_right) < FEWEST:
            raise DataError(f"there are {len(is_right)} held-out items, and at least {FEWEST} are needed.")
        errors = [calibration_error(confidences, is_right) for confidences in (before, after)]
        return cls(dict(temperatures), len(is_right), before=errors[0], after=errors[1])

    def __str__(self) -> str:
        values = ", ".join(f"of {unit}s {value:.3g}" for unit, value in self.temperatures.items())
        shown = values if len(self.temperatures) > 1 else f"{self.temperatures[OUTPUT]:.3g}"
        return (
            f"temperature {shown}, calibration error {self.before:.4f} before and {self.after:.4f} after "
            f"({counted(self.items, 'held-out item|items')})"
        )

    def save(self, folder: Path, weights: str) -> None:
        """Writes `calibration.json` for the weights of this digest."""
        values = {**asdict(self), "temperatures": dict(self.temperatures), "weights": weights}
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
            before, after = float(values["before"]), float(values["after"])
            result = cls(temperatures, int(values["items"]), before, after, str(values["weights"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}: not the calibration of a model ({error!s:.100}).\n"
                "  Remove the file; the model then is not calibrated."
            ) from None
        return result if result.weights == weights else None


@dataclass(frozen=True, slots=True)
class Stated:
    """What outputs state about their confidence.

    Args:
        shown: whether outputs have their confidence.
        at_least: outputs with less confidence are left empty; 0: none.
    """

    shown: bool = False
    at_least: float = 0.0

    def withholds(self, confidence: float | None) -> bool:
        """Whether an output with this confidence is left empty."""
        return confidence is not None and confidence < self.at_least


def reliability_of(scored: Iterable[Any]) -> Reliability | None:
    """The confidences of the items of an evaluation against what is right; None for models without confidences."""
    pairs = [(each.confidence, each.is_right) for each in scored if getattr(each, "confidence", None) is not None]
    return reliability([pair[0] for pair in pairs], [pair[1] for pair in pairs]) if pairs else None
