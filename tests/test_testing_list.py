from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

from regard import attention, ops
from support import cases, coverage


def test_everything_public_is_on_the_list():
    assert coverage.missing() == []


def test_every_part_with_heads_has_a_case_with_one_and_one_with_several():
    assert coverage.heads_missing() == []


def test_what_is_not_on_the_list_is_named(monkeypatch):
    shortened = tuple(case for case in cases.CASES if attention.LocationScore not in case.shows)
    monkeypatch.setattr(coverage, "CASES", shortened)
    assert coverage.missing() == ["LocationScore"]


def test_a_part_that_is_not_exported_is_found_too(monkeypatch):
    hidden = type("HiddenScore", (attention.AbstractScore,), {"__module__": "regard.attention.scores.dot"})
    monkeypatch.setattr("regard.attention.scores.dot.HiddenScore", hidden, raising=False)
    assert coverage.missing() == ["HiddenScore"]


def test_names_of_cases_differ():
    names = [(type(case), case.name) for case in cases.CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", cases.MECHANISMS, ids=lambda case: case.name)
def test_a_case_has_in_it_what_it_shows(case):
    made = {type(part) for part in case.make().modules()}
    for thing in case.shows:
        assert thing in made or thing.__name__ in attention.RECIPES


def test_shapes_of_operations_and_parts_are_checked_against_their_annotations():
    with pytest.raises(TypeCheckError):
        ops.masked_softmax(torch.zeros(2, 3), torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(TypeCheckError):
        attention.AdditiveScore(3, 3, 4).prepare(attention.Source(torch.zeros(2, 5), torch.zeros(2, 5, 3)))
    memory = attention.Memory(score=torch.zeros(2, 5, 1, 3), read=torch.zeros(2, 5, 1, 3))
    for query, position in ((torch.zeros(2, 3, 1), 2), (torch.zeros(2, 3), 3)):
        inputs = attention.StepInputs(query, memory, torch.zeros(position, dtype=torch.long))
        with pytest.raises(TypeCheckError):
            attention.DotScore(3, 3)(inputs, None)
