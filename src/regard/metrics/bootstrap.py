"""Intervals of metrics, and tests of the differences between models that were evaluated on the same items.

A metric of a file is a function of sums over its items: an error rate of errors and symbols, BLEU of counts of n-grams.
`MetricTerms` has what each item adds to the sums, so that the metric of any other selection of the items follows from
one product of matrices.

- The interval of a metric, or of a difference, is that of the bootstrap: items are drawn with replacement, the same
  ones for all models.
- A difference is tested by approximate randomisation: if two models are equally good, the outputs of an item might as
  well be exchanged. The p-value is the share of random exchanges that give at least the observed difference. Holm's
  correction holds the rate of false verdicts for all pairs of models together.

Items that depend on each other, such as overlapping forecasts, are drawn and exchanged in groups.

Source: Efron 1979, Bootstrap methods; Noreen 1989, Computer-intensive methods for testing hypotheses; Koehn 2004,
Statistical significance tests for machine translation evaluation; Riezler & Maxwell 2005, On some pitfalls in automatic
evaluation and significance testing for MT; Holm 1979, A simple sequentially rejective multiple test procedure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import RegardError

Array = NDArray[np.float64]
LEVEL = 0.05
"""The share of equal pairs that may be called different; intervals have the probability 1 - LEVEL."""
RESAMPLES, EXCHANGES = 2_000, 10_000
"""The numbers of draws of an interval and of a test."""
FEWEST_DRAWS, MOST_WORK = 1_000, 200_000_000
"""Of many items draws times items are at most MOST_WORK, but with FEWEST_DRAWS at least."""
BLOCK = 4_000_000
"""Draws times items that are in memory at once."""


@dataclass(frozen=True, eq=False)
class MetricTerms:
    """What each item adds to the sums from which a metric follows.

    Args:
        terms: (N, K), a row for each item.
        metric: from sums (..., K) to metrics (...); NaN where it is not defined.
        larger_is_better: whether larger values are better.
        is_share: whether it is a share from 0 to 1, which is shown in per cent.
        labels: names of the terms, K / len(labels) for each, if models may have different ones; terms that a model
            lacks are 0.
        basis: how it was computed, such as a signature of BLEU; values of different bases are not comparable.
    """

    terms: Array
    metric: Callable[[Array], Array]
    larger_is_better: bool = False
    is_share: bool = False
    labels: tuple[str, ...] = ()
    basis: str = ""

    @property
    def value(self) -> float:
        """The metric of all items."""
        return float(self.metric(self.terms.sum(0)))

    @property
    def each(self) -> Array:
        """(N,) the metric of each item alone."""
        return self.metric(self.terms)

    def at(self, items: ArrayLike) -> MetricTerms:
        """The terms of some items."""
        return replace(self, terms=self.terms[np.asarray(items, dtype=np.intp)])

    def with_labels(self, labels: Sequence[str]) -> MetricTerms:
        """The terms in the order of other labels, which include all of these."""
        if tuple(labels) == self.labels or not self.labels:
            return self
        width = self.terms.shape[1] // len(self.labels)
        terms = np.zeros((len(self.terms), len(labels), width))
        places = [labels.index(name) for name in self.labels]
        terms[:, places] = self.terms.reshape(len(terms), len(self.labels), width)
        return replace(self, terms=terms.reshape(len(terms), -1), labels=tuple(labels))


def ratio_terms(
    numerators: ArrayLike,
    denominators: ArrayLike = 1.0,
    *,
    scale: float = 1.0,
    larger_is_better: bool = False,
    is_share: bool = False,
    basis: str = "",
) -> MetricTerms:
    """The terms of a ratio of two sums, such as an error rate; of a mean over items if each denominator is 1.

    >>> rate = ratio_terms([1, 0, 2], [5, 3, 2])
    >>> rate.value, rate.each.tolist()
    (0.3, [0.2, 0.0, 1.0])
    """
    top, bottom = np.broadcast_arrays(np.asarray(numerators, np.float64), np.asarray(denominators, np.float64))

    def ratio(sums: Array) -> Array:
        return scale * divided(sums[..., 0], sums[..., 1])

    return MetricTerms(np.stack([top, bottom], 1), ratio, larger_is_better, is_share, basis=basis)


def divided(part: ArrayLike, whole: ArrayLike) -> Array:
    """part / whole, NaN where the whole is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An item as people read it.

    Args:
        place: its place in the data, such as `test.tsv:3`.
        source: the input as a text.
        reference: what is right; empty if the metrics are not of outputs.
        output: what the model says; empty likewise.
        read: what the model's prediction of the item is made from; None if there is none.
    """

    place: str
    source: str = ""
    reference: str = ""
    output: str = ""
    read: Any = None


@dataclass(frozen=True, eq=False)
class ItemTerms:
    """The terms of the metrics of an evaluation.

    Args:
        keys: N names of the items, equal in all evaluations of a file.
        metrics: the terms by metric, the headline first.
        show: the item of an index.
        groups: (N,) numbers of the groups of items that depend on each other; None: each item is a group.
        baselines: the metrics of predictions without a model, by name, of the same items.
    """

    keys: Sequence[Hashable]
    metrics: Mapping[str, MetricTerms]
    show: Callable[[int], ShownItem]
    groups: NDArray[np.int64] | None = None
    baselines: Mapping[str, Mapping[str, MetricTerms]] = field(default_factory=dict)

    def at(self, items: ArrayLike) -> ItemTerms:
        """Some of the items."""
        places = np.asarray(items, dtype=np.intp).tolist()

        def some(metrics: Mapping[str, MetricTerms]) -> dict[str, MetricTerms]:
            return {name: terms.at(places) for name, terms in metrics.items()}

        return ItemTerms(
            [self.keys[i] for i in places],
            some(self.metrics),
            lambda index: self.show(places[index]),
            None if self.groups is None else self.groups[places],
            {name: some(metrics) for name, metrics in self.baselines.items()},
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric, or a difference, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference(Estimate):
    """The difference of the second model of a pair from the first.

    Args:
        p_value: the probability of at least this difference if both are equally good.
        corrected: that p-value after Holm's correction for the pairs of models.
        larger_is_better: as of the metric.
    """

    p_value: float
    corrected: float
    larger_is_better: bool

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the corrected p-value is at most `LEVEL`."""
        return bool(self.corrected <= LEVEL)

    @property
    def verdict(self) -> int:
        """1 if the second model is better, -1 if the first is, 0 if the difference may be chance."""
        if not self.is_beyond_chance:
            return 0
        return 1 if (self.value > 0) == self.larger_is_better else -1


@dataclass(frozen=True)
class PairedComparison:
    """A metric of several models on the same items.

    Args:
        estimates: the metric of each model.
        differences: of each pair of models (i, j), i < j.
        num_groups: the number of independent groups of items.
    """

    estimates: Sequence[Estimate]
    differences: Mapping[tuple[int, int], Difference]
    num_groups: int

    def between(self, first: int, second: int) -> Difference:
        """The difference of one model from another."""
        if first < second:
            return self.differences[first, second]
        found = self.differences[second, first]
        return replace(found, value=-found.value, low=-found.high, high=-found.low)


def estimate(terms: MetricTerms, *, groups: ArrayLike | None = None, seed: int = 0) -> Estimate:
    """A metric with its interval.

    >>> rate = estimate(ratio_terms([0, 1] * 50))
    >>> rate.value, round(rate.low, 2), round(rate.high, 2)
    (0.5, 0.4, 0.6)
    """
    return compare([terms], groups=groups, seed=seed).estimates[0]


def compare(models: Sequence[MetricTerms], *, groups: ArrayLike | None = None, seed: int = 0) -> PairedComparison:
    """A metric of several models on the same items, with intervals and tests of all pairs.

    Args:
        models: the terms of each model, with the same items in the same order.
        groups: (N,) as in `ItemTerms`.
        seed: of the draws.

    Raises:
        RegardError: for terms of different numbers of items, or without items.

    >>> wrong = np.arange(100) % 2
    >>> better = np.where(np.arange(100) < 30, 0, wrong)
    >>> difference = compare([ratio_terms(wrong), ratio_terms(better)]).differences[0, 1]
    >>> round(difference.value, 2), difference.verdict
    (-0.15, 1)
    """
    if len({len(model.terms) for model in models}) != 1 or not len(models[0].terms):
        raise RegardError(
            f"Models are compared on the same items, at least one; got {[len(model.terms) for model in models]}."
        )
    labels = sorted({name for model in models for name in model.labels})
    models = [model.with_labels(labels) for model in models]
    metric, larger = models[0].metric, models[0].larger_is_better
    terms = np.stack([model.terms for model in models], 1)  # (N, M, K)
    if groups is not None:
        _, members = np.unique(np.asarray(groups), return_inverse=True)
        grouped = np.zeros((int(members.max()) + 1, *terms.shape[1:]))
        np.add.at(grouped, members, terms)
        terms = grouped
    random = np.random.default_rng(seed)
    values = metric(terms.sum(0))
    resampled = metric(_resampled(terms, _draws(RESAMPLES, len(terms)), random))  # (draws, M)
    estimates = [Estimate(float(values[i]), *_interval(resampled[:, i])) for i in range(len(models))]
    pairs = list(combinations(range(len(models)), 2))
    raw = _p_values(terms, pairs, metric, random)
    differences = {}
    for (i, j), p_value, corrected in zip(pairs, raw, holm(raw)):
        interval = _interval(resampled[:, j] - resampled[:, i])
        differences[i, j] = Difference(float(values[j] - values[i]), *interval, p_value, corrected, larger)
    return PairedComparison(estimates, differences, len(terms))


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected p-values of several tests: if all hypotheses are true, the least is at most α with probability α.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def _draws(wanted: int, items: int) -> int:
    return max(min(wanted, MOST_WORK // items), min(wanted, FEWEST_DRAWS))


def _blocks(draws: int, items: int) -> Iterator[int]:
    """The numbers of draws that are made at once."""
    size = max(BLOCK // items, 1)
    yield from [size] * (draws // size) + [draws % size] * (draws % size > 0)


def _resampled(terms: Array, draws: int, random: np.random.Generator) -> Array:
    """(draws, M, K) sums over as many items drawn with replacement."""
    items, flat = len(terms), terms.reshape(len(terms), -1)
    sums = []
    for count in _blocks(draws, items):
        drawn = random.integers(items, size=(count, items)) + items * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * items).reshape(count, items)
        sums.append(times.astype(np.float64) @ flat)
    return np.concatenate(sums).reshape(draws, *terms.shape[1:])


def _p_values(
    terms: Array, pairs: Sequence[tuple[int, int]], metric: Callable[[Array], Array], random: np.random.Generator
) -> list[float]:
    """The p-value of each pair (Noreen 1989: the observed difference counts as one of the exchanges)."""
    if not pairs:
        return []
    first, second = (terms[:, [pair[side] for pair in pairs]] for side in (0, 1))
    totals = first.sum(0), second.sum(0)
    observed = abs(metric(totals[1]) - metric(totals[0]))  # (pairs,)
    gaps = (second - first).reshape(len(terms), -1)
    draws, reached = _draws(EXCHANGES, len(terms)), np.zeros(len(pairs))
    for count in _blocks(draws, len(terms)):
        exchanged = random.integers(2, size=(count, len(terms)), dtype=np.int8).astype(np.float64)
        moved = (exchanged @ gaps).reshape(count, *totals[0].shape)
        differences = abs(metric(totals[1] - moved) - metric(totals[0] + moved))
        reached += (differences >= observed * (1 - 1e-9)).sum(0)
    return [float(p) if np.isfinite(o) else 1.0 for p, o in zip((reached + 1) / (draws + 1), observed)]


def _interval(values: Any) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)
