"""A test of draws against probabilities, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence

FALSE_ALARM = 1e-6
"""The probability with which draws from the right distribution are called improbable."""


def improbable(counts: Sequence[int], probabilities: Sequence[float]) -> bool:
    """Pearson's χ² test: whether counts of draws are so far from their expectation, with probability FALSE_ALARM.

    Outcomes with fewer than 5 expected draws are counted as one, as the distribution of the statistic asks for.
    """
    draws = sum(counts)
    if any(count and not probability for count, probability in zip(counts, probabilities, strict=True)):
        return True
    often = [i for i, probability in enumerate(probabilities) if probability * draws >= 5]
    cells = [(counts[i], probabilities[i] * draws) for i in often]
    rest = draws - sum(count for count, _ in cells), draws - sum(expected for _, expected in cells)
    if rest[1] >= 5:
        cells.append(rest)
    elif rest[0] > rest[1] + 20:
        return True
    if len(cells) < 2:
        return False
    statistic = sum((count - expected) ** 2 / expected for count, expected in cells)
    return survival(statistic, len(cells) - 1) < FALSE_ALARM


def survival(statistic: float, degrees: int) -> float:
    """P(χ² > statistic): the regularised upper incomplete gamma function Q(degrees / 2, statistic / 2).

    >>> round(survival(3.841, 1), 3), round(survival(18.307, 10), 3)
    (0.05, 0.05)
    """
    a, x = degrees / 2, statistic / 2
    if x <= 0:
        return 1.0
    if x < a + 1:
        term = total = 1 / a
        n = a
        while abs(term) > abs(total) * 1e-15:
            n += 1
            term *= x / n
            total += term
        return 1 - total * math.exp(a * math.log(x) - x - math.lgamma(a))
    b, c = x + 1 - a, 1e300
    d = 1 / b
    fraction = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return fraction * math.exp(a * math.log(x) - x - math.lgamma(a))
