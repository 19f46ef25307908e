"""Edit distances, rates, and several references of one item."""

from __future__ import annotations

import functools
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import Pair
from regard.data.text import Normalisation, group
from regard.errors import RegardError
from regard.metrics import (
    edit_distance,
    sequence_accuracy,
    sequence_error_rate,
    symbol_error_rate,
    symbol_errors,
)

words = st.text("abc", max_size=9)


def recursive_distance(first: str, second: str) -> int:
    @functools.cache
    def between(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        substituted = between(i - 1, j - 1) + (first[i - 1] != second[j - 1])
        return min(substituted, between(i - 1, j) + 1, between(i, j - 1) + 1)

    return between(len(first), len(second))


@given(words, words)
def test_the_edit_distance_is_that_of_the_recursion(first: str, second: str) -> None:
    assert edit_distance(first, second) == recursive_distance(first, second)
    assert edit_distance(first, second) == edit_distance(second, first)


def test_the_edit_distance_of_long_sequences_is_that_of_the_table() -> None:
    random = np.random.default_rng(0)
    first, second = random.integers(4, size=300), random.integers(4, size=170)
    row = np.arange(len(second) + 1)
    for i, symbol in enumerate(first, start=1):
        above, row = row, np.full(len(second) + 1, i)
        for j in range(1, len(second) + 1):
            row[j] = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (symbol != second[j - 1]))
    assert edit_distance(first.tolist(), second.tolist()) == row[-1]


def test_symbols_may_be_anything_hashable() -> None:
    assert edit_distance(["AH", "T"], ("AH", "TT", "T")) == 1
    assert edit_distance([1, 2, 3], [3, 2, 1]) == 2


def test_rates_with_one_reference_are_those_of_jiwer() -> None:
    jiwer = pytest.importorskip("jiwer")
    random = np.random.default_rng(1)

    def sentence(shortest: int) -> str:
        return " ".join(random.choice(list("abcde"), size=random.integers(shortest, 9)))

    references, outputs = [sentence(1) for _ in range(300)], [sentence(0) for _ in range(300)]
    outputs[::3] = references[::3]
    lists = [[reference] for reference in references]
    split = [[reference.split()] for reference in references]
    assert symbol_error_rate([o.split() for o in outputs], split) == pytest.approx(
        jiwer.wer(references, outputs), abs=1e-12
    )
    assert symbol_error_rate(outputs, lists) == pytest.approx(jiwer.cer(references, outputs), abs=1e-12)


def test_an_item_is_right_when_its_output_is_any_of_its_references() -> None:
    outputs = [["AH"], ["EY"], ["IY"], []]
    references = [[["AH"], ["EY"]], [["AH"], ["EY"]], [["AH"], ["EY"]], [["AH"]]]
    assert sequence_accuracy(outputs, references) == 0.5
    assert sequence_error_rate(outputs, references) == 0.5
    assert sequence_accuracy([("a", "b")], [[["a", "b"]]]) == 1


def test_the_error_rate_divides_by_the_length_of_the_nearest_reference() -> None:
    outputs, references = ["abcd", "x"], [["ab", "abcde"], ["x", "xyzxyz"]]
    assert symbol_errors(outputs[0], references[0]) == (1, 5)
    assert symbol_errors(outputs[1], references[1]) == (0, 1)
    assert symbol_error_rate(outputs, references) == 1 / 6


def test_of_equally_near_references_the_longest_counts_whatever_their_order() -> None:
    assert symbol_errors("ab", ["a", "abc"]) == symbol_errors("ab", ["abc", "a"]) == (1, 3)


def test_empty_outputs_and_references_have_a_rate() -> None:
    assert symbol_error_rate([""], [[""]]) == 0
    assert symbol_error_rate(["", "a"], [["ab"], [""]]) == 1.5
    assert symbol_error_rate(["a"], [[""]]) == float("inf")


@pytest.mark.parametrize(
    ("outputs", "references", "words"),
    [
        ([], [], "at least one"),
        (["a"], [["a"], ["b"]], "got 1 outputs and the references of 2 items"),
        (["a", "b"], [["a"], []], "Item 1 has no reference"),
        (["a"], ["a"], "The references of an item must be a list"),
    ],
)
def test_references_that_do_not_fit_are_refused(outputs: list[str], references: list[list[str]], words: str) -> None:
    for rate in (symbol_error_rate, sequence_accuracy, sequence_error_rate):
        with pytest.raises(RegardError, match=words):
            rate(outputs, references)


def test_three_thousand_short_items_are_scored_in_well_under_a_second() -> None:
    random = np.random.default_rng(2)
    items = [random.integers(39, size=random.integers(2, 15)).tolist() for _ in range(9_000)]
    start = time.process_time()
    symbol_error_rate(items[:3_000], [[items[3_000 + i], items[6_000 + i]] for i in range(3_000)])
    assert time.process_time() - start < 0.5


def pairs(*texts: tuple[str, str]) -> list[Pair]:
    return [Pair(source, target, Path("dev.tsv"), line) for line, (source, target) in enumerate(texts, start=1)]


def test_repeated_sources_are_references_of_one_item_in_order_of_first_occurrence() -> None:
    items = group(pairs(("tomato", "1"), ("a", "2"), ("tomato", "3"), ("b", "4"), ("a", "5")))
    assert [(item.source, item.references, item.lines) for item in items] == [
        ("tomato", ("1", "3"), (1, 3)),
        ("a", ("2", "5"), (2, 5)),
        ("b", ("4",), (4,)),
    ]
    assert items[1].place == "dev.tsv:2"


def test_sources_are_the_same_and_references_distinct_after_normalisation() -> None:
    upper = Normalisation("upper", "NFC")
    items = group(
        pairs(("Cafe\u0301", "x"), ("café ", "X"), ("CAFÉ", "y")), normalise_source=upper, normalise_target=upper
    )
    assert [(item.source, item.references, item.lines) for item in items] == [("Cafe\u0301", ("x", "y"), (1, 3))]
    assert len(group(pairs(("a", "x"), ("A", "x")))) == 2
    assert group([]) == []
