"""Numbers about an alignment: does it focus, does it follow the source, what does it skip or repeat?

Every measure is a pure function of an alignment (a numpy array, a tensor or nested lists). Of (T, S) it returns a plain
number, of (..., T, S) an array shaped like the leading axes. Padding never counts (`Padding`).

| measure | range | healthy speech or spelling | rows that sum to less than 1 |
|---|---|---|---|
| `focus_rate` | 0 to 1 | near 1 | not normalised |
| `diagonality` | up to 1; 0 is uniform | near 1 | normalised |
| `coverage`, `soft_coverage` | 0 to 1 | near 1 | not normalised |
| `monotonicity` | 0 to 1 | near 1 | do not matter |
| `entropy`, `normalised_entropy` | 0 to log S, 0 to 1 | near 0 | normalised |
| `skips`, `repeats` | whole numbers | 0 | do not matter |
"""

from regard.health.padding import Padding
from regard.health.path import monotonicity, repeats, skips
from regard.health.summary import AlignmentHealth, summary
from regard.health.weight import coverage, diagonality, entropy, focus_rate, normalised_entropy, soft_coverage

__all__ = [
    "AlignmentHealth",
    "Padding",
    "coverage",
    "diagonality",
    "entropy",
    "focus_rate",
    "monotonicity",
    "normalised_entropy",
    "repeats",
    "skips",
    "soft_coverage",
    "summary",
]
