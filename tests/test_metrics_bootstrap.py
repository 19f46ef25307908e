"""Intervals and tests of differences: by hand, against sacrebleu, and as laws of their rates."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from regard.errors import RegardError
from regard.metrics import (
    MetricTerms,
    caption_scores,
    caption_terms,
    compare,
    corpus_score,
    corpus_terms,
    estimate,
    f1_terms,
    ratio_terms,
    score_labels,
)
from regard.metrics.bootstrap import LEVEL, holm
from regard.metrics.translation import Metric

OUTPUTS = ["the cat sat on the mat", "a dog", "", "it is raining again today", "no"]
REFERENCES = [
    ["the cat sat on a mat", "a cat was on the mat"],
    ["the dog"],
    ["nothing"],
    ["it rains again today", "again it is raining"],
    ["yes"],
]


def test_a_ratio_is_of_sums_not_a_mean_of_ratios() -> None:
    terms = ratio_terms([1, 0, 3], [2, 4, 4], scale=100)
    assert terms.value == 40.0
    assert terms.each.tolist() == [50.0, 0.0, 75.0]
    assert terms.at([0, 0, 2]).value == 62.5
    assert np.isnan(ratio_terms([0], [0]).value)


def test_the_p_value_is_the_share_of_all_exchanges_that_reach_the_difference() -> None:
    """Of six items that differ all 64 exchanges can be counted."""
    first, second = np.array([3, 2, 4, 1, 5, 2]), np.array([1, 1, 2, 2, 1, 1])
    gaps = second - first
    reached = [abs(np.dot(signs, gaps)) >= abs(gaps.sum()) for signs in product((-1, 1), repeat=6)]
    difference = compare([ratio_terms(first), ratio_terms(second)]).differences[0, 1]
    assert difference.value == pytest.approx(gaps.mean())
    assert difference.p_value == pytest.approx(np.mean(reached), abs=0.01)
    assert difference.corrected == difference.p_value
    assert difference.verdict == 0


def test_the_interval_of_a_share_is_that_of_the_normal_distribution() -> None:
    right = np.arange(400) % 4 == 0
    found = estimate(ratio_terms(right))
    deviation = (0.25 * 0.75 / 400) ** 0.5
    assert found.low == pytest.approx(0.25 - 1.96 * deviation, abs=0.005)
    assert found.high == pytest.approx(0.25 + 1.96 * deviation, abs=0.005)


def test_equal_models_are_called_different_once_in_twenty_at_most() -> None:
    """Of one pair, and of the three pairs of three models together."""
    random, alarms = np.random.default_rng(0), np.zeros(2)
    for trial in range(200):
        difficulty = random.random(60)
        models = [ratio_terms(random.random(60) < difficulty) for _ in range(3)]
        pair = compare(models[:2], seed=trial).differences[0, 1]
        alarms += pair.is_beyond_chance, any(d.is_beyond_chance for d in compare(models).differences.values())
    assert (alarms <= 200 * LEVEL + 2 * (200 * LEVEL) ** 0.5).all()


def test_pairing_shows_what_separate_intervals_hide() -> None:
    hard = np.random.default_rng(1).random(300) < 0.5
    better = hard & (np.arange(300) % 8 > 0)
    found = compare([ratio_terms(hard), ratio_terms(better)])
    first, second = found.estimates
    assert second.high > first.low  # the intervals overlap
    assert found.between(0, 1).verdict == 1
    assert found.between(1, 0).verdict == -1
    assert found.between(1, 0).value == -found.between(0, 1).value


def test_groups_are_drawn_and_exchanged_whole() -> None:
    """Copies of items that are declared as groups are worth no more than the items."""
    random = np.random.default_rng(2)
    models = [random.random(40) < share for share in (0.5, 0.3)]
    alone = compare([ratio_terms(model) for model in models])
    copied = compare([ratio_terms(np.repeat(model, 9)) for model in models], groups=np.repeat(np.arange(40), 9))
    assert copied.num_groups == 40
    assert copied.differences[0, 1].p_value == alone.differences[0, 1].p_value
    assert copied.estimates == alone.estimates


def test_holms_correction_is_that_of_the_paper() -> None:
    assert holm([0.04, 0.01, 0.02, 0.9]) == pytest.approx([0.08, 0.04, 0.06, 0.9])
    assert holm([]) == []


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_bleu_and_chrf_of_any_selection_are_sacrebleus(metric: Metric) -> None:
    pytest.importorskip("sacrebleu")
    terms = corpus_terms(metric, OUTPUTS, REFERENCES)
    for chosen in ([0, 1, 2, 3, 4], [0, 3], [1], [2], [1, 4], [4], [0, 0, 3, 1]):
        some = [OUTPUTS[i] for i in chosen], [REFERENCES[i] for i in chosen]
        assert terms.at(chosen).value == pytest.approx(corpus_score(metric, *some).value), chosen
    assert terms.basis == corpus_score(metric, OUTPUTS, REFERENCES).signature


def test_caption_terms_are_the_scores() -> None:
    scores = caption_scores(OUTPUTS, REFERENCES)
    for name, terms in caption_terms(OUTPUTS, REFERENCES).items():
        assert terms.value == pytest.approx(scores[name])  # type: ignore[literal-required]


def test_f1_of_a_selection_is_that_of_its_labels() -> None:
    outputs, references = ["a", "b", "c", "a", "b"], ["a", "a", "c", "c", "d"]
    ids = {"a": 0, "b": 1, "c": 2, "d": 3}
    macro = f1_terms([[label] for label in outputs], [[label] for label in references])
    micro = f1_terms([[label] for label in outputs], [[label] for label in references], macro=False)
    for chosen in ([0, 1, 2, 3, 4], [0, 1], [2], [4]):
        both = ([ids[side[i]] for i in chosen] for side in (outputs, references))
        scores = score_labels(*both, num_labels=4)
        assert macro.at(chosen).value == pytest.approx(scores.macro.f1)
        assert micro.at(chosen).value == pytest.approx(scores.micro.f1)


def test_models_with_other_labels_are_compared_by_name() -> None:
    right = [["a"], ["b"], ["a"], ["b"]]
    first, second = f1_terms([["a"], ["b"], ["a"], ["c"]], right), f1_terms([["d"], ["b"], ["a"], ["b"]], right)
    found = compare([first, second])
    assert [each.value for each in found.estimates] == pytest.approx([first.value, second.value])
    assert compare([second, first]).differences[0, 1].p_value == pytest.approx(
        found.differences[0, 1].p_value, abs=0.02
    )


def test_models_of_other_items_are_refused() -> None:
    with pytest.raises(RegardError, match=r"same items, at least one; got \[2, 1\]"):
        compare([ratio_terms([1, 2]), ratio_terms([1])])
    with pytest.raises(RegardError, match="at least one"):
        compare([MetricTerms(np.zeros((0, 2)), np.sum)])


def test_a_metric_that_is_undefined_makes_no_verdict() -> None:
    found = compare([ratio_terms([0, 0], [0, 0]), ratio_terms([1, 1])])
    assert found.differences[0, 1].verdict == 0
