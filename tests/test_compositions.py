"""Any with any: a draw in which every two parts that go together meet, alone and with two heads."""

from __future__ import annotations

import itertools

import pytest

from regard.errors import UnsupportedError
from regard.testing import LAWS, check_decoder, check_mechanism
from support import tiny
from support.cases import PARTS
from support.cases.case import PART_SIZE
from support.compositions import Composition, compositions, cover_pairs, refusals
from support.coverage import parts_missing
from support.oracles import require_agreement

DRAWN = cover_pairs()
SLOW = {"step_can_be_exported", "gradients_are_those_of_finite_differences"}
ALWAYS = {"forward_is_the_loop_of_step", "padding_gets_exactly_zero"}
BEAM = ("forward_is_the_loop_of_step", "beam_is_independent_of_the_batch", "hypotheses_equal_teacher_forcing")


def by_name(one):
    return one.name


def check(one, laws):
    case = one.case
    check_mechanism(
        case.make(),
        query_size=case.query_size,
        memory_size=case.memory_size,
        input_size=case.input_size,
        only=[law for law in LAWS if law in laws],
        exempt=case.exempt,
    )


@pytest.mark.parametrize("index", range(len(DRAWN)), ids=lambda index: DRAWN[index].name)
def test_a_composition_keeps_the_laws_and_sees_what_its_equations_say(index):
    """Two or so of the other laws; `benchmarks/compositions.py` checks all laws of all compositions."""
    others = sorted(set(LAWS) - SLOW - ALWAYS)
    check(DRAWN[index], ALWAYS | set(others[index % 11 :: 11]))
    require_agreement(DRAWN[index].case)


@pytest.mark.parametrize("one", DRAWN[::24], ids=by_name)
def test_a_composition_can_be_exported_and_has_true_gradients(one):
    check(one, SLOW)


@pytest.mark.parametrize("one", [one for one in DRAWN if one.make().uses_query][::24], ids=by_name)
def test_a_composition_survives_a_beam(one):
    decoder = tiny.recurrent(one.make(), size=PART_SIZE, embedding_size=PART_SIZE)
    check_decoder(decoder, sources=tiny.sources(), num_tokens=tiny.NUM_TOKENS, only=BEAM)


def test_every_public_part_is_drawn():
    assert parts_missing() == []


def test_all_pairs_that_are_not_refused_are_drawn():
    refused = refusals()
    met = {pair for one in DRAWN for pair in itertools.combinations([f"{p.kind}: {p.name}" for p in one.parts], 2)}
    possible = {
        tuple(f"{p.kind}: {p.name}" for p in pair)
        for one in compositions()
        for pair in itertools.combinations(one.parts, 2)
    }
    assert met | refused.keys() == possible
    assert not met & refused.keys()


def test_a_refusal_says_why():
    for pair, reason in refusals().items():
        assert len(reason) > 40, pair


def test_what_is_refused_names_its_parts():
    parts = {part.name: part for part in PARTS}
    one = Composition(tuple(parts[name] for name in ("dot", "full", "exponential", "sum")), 2)
    with pytest.raises(UnsupportedError, match=r"exp\(e\) of a DotScore has no bound"):
        one.make()
    assert one.name == "dot · full · exponential · sum · 2 heads"
