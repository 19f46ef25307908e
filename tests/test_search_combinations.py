"""Random searches that are not refused, a sample of those of `benchmarks/fuzz/search_combinations.py`."""

from __future__ import annotations

import itertools

import pytest
import torch

from regard.config.combinations import (
    EXCLUSIONS,
    METHODS,
    READ_BY,
    READ_WITH,
    STREAM_EXCLUSIONS,
    TREE_EXCLUSIONS,
    refusal_of,
)
from regard.config.search import Search
from regard.decoding import Constraints
from regard.errors import ConfigError
from support import search_trials
from support.search_trials import VALUES, draw_trial, run_trial

torch.set_num_threads(1)
PHRASES = (Constraints(include=[[3, 3]]), None)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_searches_that_are_not_refused_keep_what_they_promise(first):
    for number in range(first, first + 10):
        run_trial(draw_trial(number))


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(
            search_trials.SearchTrial(
                3, "transformer, transformer_xl", {"beam": 9, "stop": "first"}, (5, 7), PHRASES, None, 0
            ),
            id="a beam with banks is wider than the vocabulary",
        ),
        pytest.param(
            search_trials.SearchTrial(
                3,
                "luong with input feeding and an LSTM",
                {"num_best": 20, "coverage_penalty": "summary", "beta": 3.0},
                (6, 3),
                (None, None),
                None,
                0,
            ),
            id="a penalty ranks unfinished hypotheses otherwise than the beam",
        ),
    ],
)
def test_searches_that_once_failed(trial):
    assert run_trial(trial)


APART = {"weights"}
"""Weights of 8 bits are rounded, so that what is found is not that of a teacher-forced pass (test_decoding_stored)."""


def test_every_setting_is_drawn_and_a_number_is_always_the_same_trial():
    assert set(VALUES) == set(Search.model_fields) - APART
    trials = [draw_trial(number) for number in range(400)]
    drawn = set().union(*(trial.options for trial in trials))
    assert drawn == set(VALUES)
    assert {trial.options["method"] for trial in trials} == set(METHODS)
    assert any(any(trial.constraints) for trial in trials)
    assert draw_trial(7) == trials[7]


def test_a_search_that_returns_the_alignment_of_another_hypothesis_is_noticed(monkeypatch):
    plain = search_trials.search

    def swapped(*arguments, **options):
        found = plain(*arguments, **options)
        for ranked in found:
            if len(ranked) > 1 and len(ranked[0].tokens) == len(ranked[1].tokens):
                object.__setattr__(ranked[0], "alignments", ranked[1].alignments)
        return found

    trial = search_trials.SearchTrial(
        0, "bahdanau", {"beam": 6, "num_best": 5, "min_length": 3}, (5, 5), (None, None), None, 0
    )
    assert run_trial(trial)
    monkeypatch.setattr(search_trials, "search", swapped)
    with pytest.raises(AssertionError, match="attention of"):
        run_trial(trial)


def default(name):
    return Search.model_fields[name].default


def accepted(**options):
    try:
        Search(**options)
    except ConfigError:
        return False
    return True


def even(method):
    """A beam that groups divide."""
    return {"beam": 6} if method == "beam" else {}


def test_the_table_refuses_what_it_says_and_nothing_else():
    """Every key with every method, and every pair of keys, is refused exactly if a line of the table says so."""
    given = {name: next(v for v in values if v != default(name)) for name, values in VALUES.items() if name != "method"}
    given |= {"beam": 6, "num_samples": 50, "stop": "patience"}
    needed = {
        "alpha": {"length_penalty": "gnmt"},
        "length_counts_begin": {"length_penalty": "gnmt"},
        "beta": {"coverage_penalty": "gnmt"},
        "diversity": {"num_groups": 2},
        "patience": {"stop": "patience"},
    }
    assert set(needed) == {name for name in READ_WITH if name in Search.model_fields}
    for method in METHODS:
        for name in given:
            options = {**even(method), **needed.get(name, {}), name: given[name], "method": method}
            assert accepted(**options) == (method in READ_BY.get(name, METHODS)), options
    for first, second in itertools.combinations(given, 2):
        for method in METHODS:
            options = {**needed.get(first, {}), **needed.get(second, {}), first: given[first], second: given[second]}
            reads = all(method in READ_BY.get(name, METHODS) for name in options)
            reads &= all(options.items() >= needed.get(name, {}).items() for name in (first, second))
            reads &= not (options.get("keep_finished") and {"stop", "num_groups"} & set(options))
            assert accepted(**{**even(method), **options}, method=method) == reads, options
    assert not accepted(alpha=0.5, length_penalty="average")
    assert not accepted(length_counts_begin=True, length_penalty="none")
    assert not accepted(beta=0.5)
    assert not accepted(diversity=0.1)
    assert not accepted(patience=2.0)


def test_every_exclusion_has_settings_that_it_refuses():
    """By the place of an exclusion in the table; without it, they would be accepted."""
    refused = [
        {"beam": 1, "num_best": 2},
        {"beam": 1, "stop": "first"},
        {"beam": 5, "num_groups": 2},
        {"beam": 4, "num_groups": 2, "keep_finished": True},
        {"stop": "first", "keep_finished": True},
        {"beam": 2, "num_best": 3, "keep_finished": True},
        {"method": "mbr", "num_samples": 3, "num_best": 4},
    ]
    general = [exclusion for exclusion in EXCLUSIONS if exclusion.key in Search.model_fields]
    assert len(general) == len(refused)
    for exclusion, options in zip(general, refused, strict=True):
        with pytest.raises(ConfigError, match=exclusion.reason.replace("(", r"\(").replace(")", r"\)")):
            Search(**options)
    assert len(STREAM_EXCLUSIONS) == 5
    assert len(TREE_EXCLUSIONS) == 3
    defaults = {name: field.default for name, field in Search.model_fields.items()}
    assert refusal_of(Search(), frozenset(defaults), defaults) is None
