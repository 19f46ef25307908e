"""Confidence: how well probabilities of being right agree with what is right, and the temperatures that make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import ShapeError

Values = NDArray[np.float64]
BINS = 15
"""The usual number of bins of the calibration error (Guo et al. 2017)."""
LARGEST_LOG = 3.0
"""Temperatures are between exp(-LARGEST_LOG) and exp(LARGEST_LOG), 0.05 and 20."""
GRID, REFINEMENTS = 25, 30
"""The temperatures that are tried first, and the steps of the golden section around the best of them."""
GOLDEN = (5**0.5 - 1) / 2
SMALLEST = -1e4
"""The least logarithm of a probability, which stands for 0."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Outputs in bins of equal width of their confidence; a row of the arrays for each of K bins that has outputs.

    Args:
        counts: (K,) outputs.
        confidences: (K,) the mean confidence.
        accuracies: (K,) the share that is right.
        edges: (K, 2) the limits of each bin.
    """

    counts: NDArray[np.int64]
    confidences: Values
    accuracies: Values
    edges: Values

    @property
    def error(self) -> float:
        """The expected calibration error, Σ_k n_k/n |accuracy_k - confidence_k|; NaN without outputs."""
        total = self.counts.sum()
        gaps = np.abs(self.accuracies - self.confidences)
        return float((self.counts * gaps).sum() / total) if total else float("nan")


def reliability(confidences: Any, is_right: Any, *, bins: int = BINS) -> Reliability:
    """Compares confidences (N,) with whether each output is right (N,).

    Bin k of K has the confidences in (k/K, (k + 1)/K], the first one also 0.

    Raises:
        ShapeError: for arrays of other shapes, or confidences outside 0 to 1.

    Source: Niculescu-Mizil & Caruana 2005, Predicting good probabilities with supervised learning.

    >>> curve = reliability([0.9, 0.8, 0.7, 0.1], [True, True, False, False], bins=2)
    >>> curve.counts.tolist(), curve.confidences.round(2).tolist(), curve.accuracies.round(2).tolist()
    ([1, 3], [0.1, 0.8], [0.0, 0.67])
    """
    values, right = _checked(confidences, is_right)
    if not np.all((values >= 0) & (values <= 1)):
        raise ShapeError("Confidences are numbers from 0 to 1.")
    numbers = np.clip(np.ceil(values * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(numbers, minlength=bins)
    used = np.flatnonzero(counts)
    means = [np.bincount(numbers, each, minlength=bins)[used] / counts[used] for each in (values, right)]
    return Reliability(counts[used], means[0], means[1], np.stack([used, used + 1], axis=1) / bins)


def calibration_error(confidences: Any, is_right: Any, *, bins: int = BINS) -> float:
    """The expected calibration error (ECE): the mean gap between confidence and accuracy, over bins of outputs.

    0 is best; of models that are always sure and right half of the time it is 0.5.

    Source: Guo, Pleiss, Sun & Weinberger 2017, On calibration of modern neural networks.

    >>> round(calibration_error([0.9, 0.9, 0.6, 0.6], [True, True, True, False]), 3)
    0.1
    """
    return reliability(confidences, is_right, bins=bins).error


def softmax_confidence(log_probabilities: Any, temperature: float) -> Values:
    """softmax(z / T) over the last axis, from logits or log-probabilities z.

    >>> softmax_confidence(np.log([0.8, 0.2]), 2.0).round(3).tolist()
    [0.667, 0.333]
    """
    return np.asarray(np.exp(_log_softmax(log_probabilities, temperature)), dtype=np.float64)


def sigmoid_confidence(probabilities: Any, temperature: float) -> Values:
    """sigmoid(z / T), from probabilities sigmoid(z): of labels of which there may be several, or of symbols.

    >>> sigmoid_confidence([0.9, 0.5], 2.0).round(3).tolist()
    [0.75, 0.5]
    """
    present, absent = _both(probabilities)
    return np.asarray(1 / (1 + np.exp(np.clip((absent - present) / temperature, SMALLEST, -SMALLEST / 100))))


def power_confidence(log_probability: Any, temperature: float) -> Values:
    """p^(1/T) of an output of several parts, from its log-probability.

    >>> power_confidence(np.log(0.25), 2.0).round(3).item()
    0.5
    """
    return np.asarray(np.exp(np.minimum(np.asarray(log_probability, dtype=np.float64), 0.0) / temperature))


def softmax_temperature(log_probabilities: Any, classes: Any) -> float:
    """The temperature T that minimises the negative log-likelihood of classes (N,) by softmax(z / T).

    Args:
        log_probabilities: z (N, C), logits or log-probabilities.

    The prior of log T is a standard normal one, worth about one item, so that T stays finite if all are right.

    Source: Guo et al. 2017, section 4.2.

    >>> logits = np.log([[0.9, 0.1]] * 4)
    >>> softmax_confidence(logits[0], softmax_temperature(np.repeat(logits, 1000, 0), [0, 0, 0, 1] * 1000)).round(2)
    array([0.75, 0.25])
    """
    values, right = np.asarray(log_probabilities, dtype=np.float64), np.asarray(classes, dtype=np.int64)
    if values.ndim != 2 or right.shape != values.shape[:1]:
        raise ShapeError(f"Expected log-probabilities (N, C) and classes (N,); got {values.shape}, {right.shape}.")
    rows = np.arange(len(right))
    return _smallest(lambda temperature: -_log_softmax(values, temperature)[rows, right].sum())


def sigmoid_temperature(probabilities: Any, is_present: Any) -> float:
    """As `softmax_temperature`, by sigmoid(z / T): of outputs (N,) that are right, or labels (N, C)."""
    present, absent = _both(probabilities)
    margins = np.where(np.asarray(is_present, dtype=bool), present - absent, absent - present)
    return _smallest(lambda temperature: np.logaddexp(0.0, -margins / temperature).sum())


def power_temperature(log_probabilities: Any, is_right: Any) -> float:
    """The temperature T that minimises the negative log-likelihood of what is right (N,) by p^(1/T).

    The prior is that of `softmax_temperature`.

    Args:
        log_probabilities: log p (N,) of outputs.

    >>> T = power_temperature(np.log([0.25] * 4000), [True, False] * 2000)
    >>> power_confidence(np.log(0.25), T).round(2).item()
    0.5
    """
    values, right = _checked(log_probabilities, is_right)
    costs = -np.clip(values, SMALLEST, -1e-12)

    def loss(temperature: float) -> float:
        scaled = costs / temperature
        return float(np.where(right, scaled, -np.log(-np.expm1(-scaled))).sum())

    return _smallest(loss)


def _smallest(loss: Callable[[float], Any]) -> float:
    """The temperature with the smallest sum of loss and prior: the best of a grid, then a golden section around it."""

    def cost(log_temperature: float) -> float:
        return float(loss(float(np.exp(log_temperature)))) + 0.5 * log_temperature**2

    grid = np.linspace(-LARGEST_LOG, LARGEST_LOG, GRID)
    best = int(np.argmin([cost(value) for value in grid]))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, GRID - 1)])
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = cost(left), cost(right)
    for _ in range(REFINEMENTS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = cost(right)
    return float(np.exp((low + high) / 2))


def _log_softmax(values: Any, temperature: float) -> Values:
    scaled = np.clip(np.asarray(values, dtype=np.float64), SMALLEST, -SMALLEST) / temperature
    scaled = scaled - scaled.max(-1, keepdims=True)
    return np.asarray(scaled - np.log(np.exp(scaled).sum(-1, keepdims=True)), dtype=np.float64)


def _both(probabilities: Any) -> tuple[Values, Values]:
    """The logarithms of probabilities and of their complements."""
    values = np.clip(np.asarray(probabilities, dtype=np.float64), 1e-15, 1 - 1e-15)
    return np.log(values), np.log1p(-values)


def _checked(values: Any, is_right: Sequence[bool] | Any) -> tuple[Values, NDArray[np.bool_]]:
    numbers, right = np.asarray(values, dtype=np.float64), np.asarray(is_right, dtype=bool)
    if numbers.ndim != 1 or right.shape != numbers.shape:
        raise ShapeError(f"Expected a number and a truth value for each output; got {numbers.shape}, {right.shape}.")
    return numbers, right
