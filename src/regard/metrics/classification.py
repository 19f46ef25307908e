"""How well labels are found: accuracy, precision, recall and F1, and the confusion matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import RegardError


@dataclass(frozen=True)
class LabelScores:
    """Counts of right and wrong labels over the items of an evaluation, and the figures that follow from them.

    Where a division would be by zero: the precision of a label that is never given is 0, the recall of a label that no
    item has is 0, and F1 = 2·TP / (2·TP + FP + FN) is 0 if nothing was to be found or given. Macro figures are means
    over the labels that are given or that an item has; other labels, of which these items say nothing, do not count.
    Without any such label, macro and micro figures are 0.

    Args:
        confusion: (C, C) items with the row's label that were given the column's; (C, 2, 2) for several labels, for
            each label whether an item has it (row) and was given it (column).
        num_right: items whose labels are all right and no label too many.
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
        """The share of items whose labels are right; of several, all of them."""
        return self.num_right / self.num_items

    @property
    def true_positives(self) -> NDArray[np.int64]:
        """(C,) items that have the label and were given it."""
        return self.confusion[:, 1, 1] if self.several else self.confusion.diagonal()

    @property
    def given(self) -> NDArray[np.int64]:
        """(C,) items that were given the label."""
        return self.confusion[:, :, 1].sum(1) if self.several else self.confusion.sum(0)

    @property
    def support(self) -> NDArray[np.int64]:
        """(C,) items that have the label."""
        return self.confusion[:, 1].sum(1) if self.several else self.confusion.sum(1)

    @property
    def precision(self) -> NDArray[np.float64]:
        """(C,) TP / (TP + FP): of the items that were given the label, the share that has it."""
        return _ratio(self.true_positives, self.given)

    @property
    def recall(self) -> NDArray[np.float64]:
        """(C,) TP / (TP + FN): of the items that have the label, the share that was given it."""
        return _ratio(self.true_positives, self.support)

    @property
    def f1(self) -> NDArray[np.float64]:
        """(C,) the harmonic mean of precision and recall."""
        return _ratio(2 * self.true_positives, self.given + self.support)

    @property
    def macro_precision(self) -> float:
        """The mean of the labels' precision."""
        return self._mean(self.precision)

    @property
    def macro_recall(self) -> float:
        """The mean of the labels' recall."""
        return self._mean(self.recall)

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1, so that rare labels count as much as frequent ones."""
        return self._mean(self.f1)

    @property
    def micro_precision(self) -> float:
        """The precision of all labels together; with one label each, the accuracy."""
        return float(_ratio(self.true_positives.sum(), self.given.sum()))

    @property
    def micro_recall(self) -> float:
        """The recall of all labels together; with one label each, the accuracy."""
        return float(_ratio(self.true_positives.sum(), self.support.sum()))

    @property
    def micro_f1(self) -> float:
        """The F1 of all labels together; with one label each, the accuracy."""
        return float(_ratio(2 * self.true_positives.sum(), self.given.sum() + self.support.sum()))

    def _mean(self, values: NDArray[np.float64]) -> float:
        occurs = (self.given + self.support) > 0
        return float(values[occurs].mean()) if occurs.any() else 0.0


def score_labels(outputs: ArrayLike, references: ArrayLike, *, num_labels: int | None = None) -> LabelScores:
    """Compares given labels with right ones.

    Args:
        outputs, references: (items,) ids for one label each; (items, C) bool for several.
        num_labels: C; needed for ids.

    Raises:
        RegardError: if there are no items, the shapes or types do not fit, or an id is not below C.

    >>> scores = score_labels([0, 2, 1, 0], [0, 1, 1, 0], num_labels=3)
    >>> scores.accuracy, scores.f1.round(2).tolist(), round(scores.macro_f1, 2)
    (0.75, [1.0, 0.67, 0.0], 0.56)
    >>> scores.confusion.tolist()
    [[2, 0, 0], [0, 1, 1], [0, 0, 0]]
    """
    given, right = np.asarray(outputs), np.asarray(references)
    if given.shape != right.shape or given.ndim not in (1, 2) or len(given) == 0:
        raise RegardError(
            "Scores need the labels of the same items, at least one: (items,) ids or (items, C) bool; got shapes "
            f"{given.shape} and {right.shape}."
        )
    if given.ndim == 2:
        if given.dtype != np.bool_ or right.dtype != np.bool_:
            raise RegardError(f"Several labels must be bool (items, C); got {given.dtype} and {right.dtype}.")
        if num_labels not in (None, given.shape[1]):
            raise RegardError(f"num_labels={num_labels}, but the arrays have C={given.shape[1]} labels.")
        cells = [[(r & g).sum(0) for g in (~given, given)] for r in (~right, right)]
        return LabelScores(np.array(cells).transpose(2, 0, 1), int((given == right).all(1).sum()), len(given))
    if not (np.issubdtype(given.dtype, np.integer) and np.issubdtype(right.dtype, np.integer)):
        raise RegardError(f"Ids of labels must be integers; got {given.dtype} and {right.dtype}.")
    if num_labels is None:
        raise RegardError("Ids of labels need num_labels, how many labels there are.")
    for name, ids in (("outputs", given), ("references", right)):
        if ids.min() < 0 or ids.max() >= num_labels:
            raise RegardError(f"{name} must be from 0 to {num_labels - 1}; got {ids.min()} to {ids.max()}.")
    flat = np.bincount(right.astype(np.int64) * num_labels + given, minlength=num_labels**2)
    return LabelScores(flat.reshape(num_labels, num_labels), int((given == right).sum()), len(given))


def _ratio(part: ArrayLike, whole: ArrayLike) -> NDArray[np.float64]:
    """part / whole, 0 where the whole is 0."""
    numerator, denominator = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
