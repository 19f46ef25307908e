"""Scores of labels, against counting one item after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import RegardError
from regard.metrics import score_labels


def counted(outputs, references, num_labels):
    """Precision, recall, F1 of each label, and macro and micro F1, from sets of labels."""
    rows, totals = [], np.zeros(3)
    for label in range(num_labels):
        tp = sum(label in o and label in r for o, r in zip(outputs, references, strict=True))
        fp = sum(label in o and label not in r for o, r in zip(outputs, references, strict=True))
        fn = sum(label not in o and label in r for o, r in zip(outputs, references, strict=True))
        totals += tp, fp, fn
        precision = tp / (tp + fp) if tp + fp else 0.0
        recall = tp / (tp + fn) if tp + fn else 0.0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        rows.append((precision, recall, f1, tp + fp + fn > 0))
    occurring = [row for row in rows if row[3]]
    macro = [sum(row[i] for row in occurring) / len(occurring) if occurring else 0.0 for i in range(3)]
    tp, fp, fn = totals
    return rows, macro, (2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0)


def compared(scores, outputs, references, num_labels):
    rows, macro, micro = counted(outputs, references, num_labels)
    np.testing.assert_allclose(scores.precision, [row[0] for row in rows])
    np.testing.assert_allclose(scores.recall, [row[1] for row in rows])
    np.testing.assert_allclose(scores.f1, [row[2] for row in rows])
    np.testing.assert_allclose([scores.macro.precision, scores.macro.recall, scores.macro.f1], macro)
    assert scores.micro.f1 == pytest.approx(micro)
    assert scores.accuracy == pytest.approx(np.mean([o == r for o, r in zip(outputs, references, strict=True)]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_scores_of_one_label_are_counted(pairs):
    outputs, references = map(list, zip(*pairs, strict=True))
    scores = score_labels(outputs, references, num_labels=5)
    compared(scores, [{o} for o in outputs], [{r} for r in references], 5)
    assert scores.micro.f1 == scores.micro.precision == scores.micro.recall == pytest.approx(scores.accuracy)
    for right in range(5):
        for output in range(5):
            assert scores.confusion[right, output] == pairs.count((output, right))


@given(st.lists(st.tuples(st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3))), min_size=1, max_size=30))
def test_scores_of_several_labels_are_counted(pairs):
    outputs, references = map(list, zip(*pairs, strict=True))
    arrays = [np.array([[label in labels for label in range(5)] for labels in sets]) for sets in (outputs, references)]
    scores = score_labels(*arrays)
    compared(scores, outputs, references, 5)
    assert scores.confusion.shape == (5, 2, 2)
    assert (scores.confusion.sum((1, 2)) == len(pairs)).all()
    assert (scores.support == arrays[1].sum(0)).all()


def test_nothing_to_divide_by_is_zero():
    scores = score_labels(np.zeros((2, 3), bool), np.zeros((2, 3), bool))
    assert (scores.accuracy, scores.macro.f1, scores.micro.f1, scores.micro.precision) == (1.0, 0.0, 0.0, 0.0)
    assert not scores.f1.any()
    assert score_labels([0], [0], num_labels=9).macro.f1 == 1.0


@pytest.mark.parametrize(
    ("outputs", "references", "options", "message"),
    [
        ([0], [0, 1], {"num_labels": 2}, r"\(1,\) and \(2,\)"),
        ([], [], {"num_labels": 2}, "at least one"),
        ([0], [2], {"num_labels": 2}, "references must be from 0 to 1; got 2 to 2"),
        ([-1], [0], {"num_labels": 2}, "outputs must be from 0 to 1; got -1"),
        ([0], [0], {}, "need num_labels"),
        ([0.5], [0.5], {"num_labels": 2}, "must be integers; got float64"),
        ([[1, 0]], [[1, 0]], {}, "must be bool"),
        ([[True]], [[True]], {"num_labels": 2}, "num_labels=2, but the arrays have C=1"),
    ],
)
def test_labels_that_do_not_fit_are_refused(outputs, references, options, message):
    with pytest.raises(RegardError, match=message):
        score_labels(outputs, references, **options)
