"""All measures of an alignment at once, as numbers and as one line of text."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from regard.health.padding import Measured, Padding
from regard.health.path import monotonicity, repeats, skips
from regard.health.weight import coverage, diagonality, entropy, focus_rate, normalised_entropy, soft_coverage


@dataclass(frozen=True, slots=True)
class AlignmentHealth:
    """The measures of `regard.health`: plain numbers, or arrays shaped like the leading axes of the alignment."""

    focus_rate: Measured
    diagonality: Measured
    coverage: Measured
    soft_coverage: Measured
    monotonicity: Measured
    entropy: Measured
    normalised_entropy: Measured
    skips: Measured
    repeats: Measured

    def mean(self) -> AlignmentHealth:
        """The mean of each number over all leading axes; items where it is undefined (NaN) are left out."""
        arrays = (np.asarray(getattr(self, field.name), float) for field in dataclasses.fields(self))
        defined = (array[~np.isnan(array)] for array in arrays)
        return AlignmentHealth(*(float(array.mean()) if array.size else float("nan") for array in defined))

    @property
    def text(self) -> str:
        """One line of text; several alignments are shown by their mean."""
        count = np.size(self.focus_rate)
        if np.ndim(self.focus_rate):
            return f"mean of {count}: {self.mean().text}" if count else "no alignments"
        return (
            f"focus {self.focus_rate:.2f}, diagonality {self.diagonality:.2f}, coverage {self.coverage:.0%}, "
            f"monotonicity {self.monotonicity:.0%}, entropy {self.entropy:.2f} nats "
            f"({self.normalised_entropy:.0%}), skips {self.skips:.4g}, repeats {self.repeats:.4g}"
        )


def summary(
    alignment: Any, *, threshold: float = 0.5, longest_stay: int | None = None, **padding: Unpack[Padding]
) -> AlignmentHealth:
    """Every measure of an alignment (..., T, S).

    Args:
        threshold: as in `coverage`.
        longest_stay: as in `repeats`.

    >>> print(summary([[0.9, 0.1], [0.2, 0.8]]).text)
    focus 0.85, diagonality 0.70, coverage 100%, monotonicity 100%, entropy 0.41 nats (60%), skips 0, repeats 0
    """
    return AlignmentHealth(
        focus_rate=focus_rate(alignment, **padding),
        diagonality=diagonality(alignment, **padding),
        coverage=coverage(alignment, threshold=threshold, **padding),
        soft_coverage=soft_coverage(alignment, **padding),
        monotonicity=monotonicity(alignment, **padding),
        entropy=entropy(alignment, **padding),
        normalised_entropy=normalised_entropy(alignment, **padding),
        skips=skips(alignment, **padding),
        repeats=repeats(alignment, longest_stay=longest_stay, **padding),
    )
