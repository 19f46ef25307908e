"""Accuracy, precision, recall, F1 and the confusion matrix of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import RegardError
from regard.metrics.bootstrap import Array, MetricTerms


class AverageScores(NamedTuple):
    """Precision, recall and F1 over all labels."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class LabelScores:
    """Counts of predicted and true labels over the items of an evaluation, and the figures that follow from them.

    Precision, recall and F1 = 2·TP / (2·TP + FP + FN) with a denominator of 0 are 0. Macro figures are means over the
    labels that are predicted or true for an item; without any they are 0.

    Args:
        confusion: (C, C) counts of items by true label (row) and predicted label (column); for several labels
            (C, 2, 2), for each label by whether it is true (row) and predicted (column).
        num_right: items whose predicted labels are exactly the true ones.
    """

    confusion: NDArray[np.int64]
    num_right: int
    num_items: int

    @property
    def several(self) -> bool:
        """Whether items have none or several labels."""
        return self.confusion.ndim == 3

    @property
    def accuracy(self) -> float:
        """The share of items whose predicted labels are exactly the true ones."""
        return self.num_right / self.num_items

    @property
    def true_positives(self) -> NDArray[np.int64]:
        """(C,) items with the label as a true and a predicted one."""
        return self.confusion[:, 1, 1] if self.several else self.confusion.diagonal()

    @property
    def predicted(self) -> NDArray[np.int64]:
        """(C,) items with the label as a predicted one."""
        return self.confusion[:, :, 1].sum(1) if self.several else self.confusion.sum(0)

    @property
    def support(self) -> NDArray[np.int64]:
        """(C,) items with the label as a true one."""
        return self.confusion[:, 1].sum(1) if self.several else self.confusion.sum(1)

    @property
    def precision(self) -> NDArray[np.float64]:
        """(C,) TP / (TP + FP)."""
        return _ratio(self.true_positives, self.predicted)

    @property
    def recall(self) -> NDArray[np.float64]:
        """(C,) TP / (TP + FN)."""
        return _ratio(self.true_positives, self.support)

    @property
    def f1(self) -> NDArray[np.float64]:
        """(C,) the harmonic mean of precision and recall."""
        return _ratio(2 * self.true_positives, self.predicted + self.support)

    @property
    def macro(self) -> AverageScores:
        """The means over labels, so that rare labels count as much as frequent ones."""
        occurs = (self.predicted + self.support) > 0
        means = (values[occurs].mean() if occurs.any() else 0.0 for values in (self.precision, self.recall, self.f1))
        return AverageScores(*map(float, means))

    @property
    def micro(self) -> AverageScores:
        """The figures of all labels together; with one label per item all are the accuracy."""
        correct, predicted, support = self.true_positives.sum(), self.predicted.sum(), self.support.sum()
        fractions = (correct, predicted), (correct, support), (2 * correct, predicted + support)
        return AverageScores(*(float(_ratio(*fraction)) for fraction in fractions))


def score_labels(outputs: ArrayLike, references: ArrayLike, *, num_labels: int | None = None) -> LabelScores:
    """The scores of predicted labels.

    Args:
        outputs, references: predicted and true labels: (items,) ids of one label each; (items, C) bool for several.
        num_labels: C; required with ids.

    Raises:
        RegardError: if there are no items, the shapes or types do not fit, or an id is not below C.

    >>> scores = score_labels([0, 2, 1, 0], [0, 1, 1, 0], num_labels=3)
    >>> scores.accuracy, scores.f1.round(2).tolist(), round(scores.macro.f1, 2)
    (0.75, [1.0, 0.67, 0.0], 0.56)
    >>> scores.confusion.tolist()
    [[2, 0, 0], [0, 1, 1], [0, 0, 0]]
    """
    predicted, true = np.asarray(outputs), np.asarray(references)
    if predicted.shape != true.shape or predicted.ndim not in (1, 2) or len(predicted) == 0:
        raise RegardError(
            "Scores need the labels of the same items, at least one: (items,) ids or (items, C) bool; got shapes "
            f"{predicted.shape} and {true.shape}."
        )
    if predicted.ndim == 2:
        if predicted.dtype != np.bool_ or true.dtype != np.bool_:
            raise RegardError(f"Several labels must be bool (items, C); got {predicted.dtype} and {true.dtype}.")
        if num_labels not in (None, predicted.shape[1]):
            raise RegardError(f"num_labels={num_labels}, but the arrays have C={predicted.shape[1]} labels.")
        cells = [[(t & p).sum(0) for p in (~predicted, predicted)] for t in (~true, true)]
        return LabelScores(np.array(cells).transpose(2, 0, 1), int((predicted == true).all(1).sum()), len(predicted))
    if not (np.issubdtype(predicted.dtype, np.integer) and np.issubdtype(true.dtype, np.integer)):
        raise RegardError(f"Ids of labels must be integers; got {predicted.dtype} and {true.dtype}.")
    if num_labels is None:
        raise RegardError("Ids of labels need num_labels, the number of labels.")
    for name, ids in (("outputs", predicted), ("references", true)):
        if ids.min() < 0 or ids.max() >= num_labels:
            raise RegardError(f"{name} must be from 0 to {num_labels - 1}; got {ids.min()} to {ids.max()}.")
    flat = np.bincount(true.astype(np.int64) * num_labels + predicted, minlength=num_labels**2)
    return LabelScores(flat.reshape(num_labels, num_labels), int((predicted == true).sum()), len(predicted))


def f1_terms(
    outputs: Sequence[Iterable[Hashable]], references: Sequence[Iterable[Hashable]], *, macro: bool = True
) -> MetricTerms:
    """The counts of each item from which F1 = 2·TP / (2·TP + FP + FN) follows.

    Args:
        outputs, references: the predicted and the true labels of each item, of a label as often as it occurs; those in
            common are right. For tokens or spans, an element may be any value that names position and label.
        macro: the mean of the F1 of the labels that occur; else that of all labels together.

    >>> f1_terms([["a"], ["b"]], [["a"], ["a"]]).value
    0.3333333333333333
    >>> f1_terms([["a"], ["b"]], [["a"], ["a"]], macro=False).value
    0.5
    """
    counts = [
        (Counter(map(_name, set(output) & set(reference))), Counter(map(_name, output)), Counter(map(_name, reference)))
        for output, reference in zip(map(list, outputs), map(list, references), strict=True)
    ]
    labels = tuple(sorted({label for _, *both in counts for each in both for label in each}))
    places = {label: i for i, label in enumerate(labels)}
    terms = np.zeros((len(counts), len(labels), 3))
    for row, kinds in enumerate(counts):
        for kind, each in enumerate(kinds):
            for label, count in each.items():
                terms[row, places[label], kind] = count
    if not macro:
        return MetricTerms(terms.sum(1), _f1, larger_is_better=True)
    return MetricTerms(terms.reshape(len(counts), -1), _macro_f1, larger_is_better=True, labels=labels)


def _name(element: Any) -> str:
    """The label of an element, the first of a tuple."""
    return str(element[0] if isinstance(element, tuple) else element)


def _f1(sums: Array) -> Array:
    return _ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


def _macro_f1(sums: Array) -> Array:
    by_label = sums.reshape(*sums.shape[:-1], -1, 3)
    occurs = by_label[..., 1] + by_label[..., 2] > 0
    return _ratio((_f1(by_label) * occurs).sum(-1), occurs.sum(-1))


def _ratio(part: ArrayLike, whole: ArrayLike) -> NDArray[np.float64]:
    """part / whole, 0 where the whole is 0."""
    numerator, denominator = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
