"""Queries and memories of the wrong size are refused with the sizes and the way out."""

from __future__ import annotations

import inspect

import pytest
import torch

from regard import tree
from regard.attention import AdditiveScore, ChunkwiseAlignment, Mechanism, WeightedSum
from regard.errors import ShapeError
from regard.testing.source import encode
from support import tiny
from support.cases import DECODERS, MECHANISMS

SINGLE = [case for case in MECHANISMS if isinstance(case.memory_size, int) and isinstance(case.make(), Mechanism)]
ASKING = [case for case in SINGLE if case.make().uses_query]
step, forward, prepare = (inspect.unwrap(x) for x in (Mechanism.step, Mechanism.forward, Mechanism.prepare))


def made(case):
    mechanism = case.make()
    keys = {} if case.key_size is None else {"keys": torch.zeros(2, 4, case.key_size)}
    memory = mechanism.prepare(torch.zeros(2, 4, case.memory_size), **keys)
    return mechanism, memory, mechanism.initial_state(memory)


@pytest.mark.parametrize("case", ASKING, ids=lambda case: case.name)
def test_a_query_of_another_size_is_shown_with_what_to_build(case):
    mechanism, memory, state = made(case)
    size, wrong = case.query_size, case.query_size + 2
    message = (
        rf"(?s)queries of Q={size} features.*query  \(R=2, Q={wrong}\).*query_size={wrong}.*Linear\({wrong}, {size}\)"
    )
    with pytest.raises(ShapeError, match=message):
        step(mechanism, torch.zeros(2, wrong), memory, state)
    with pytest.raises(ShapeError, match=message.replace("R=2, Q", "R=2, T=3, Q")):
        forward(mechanism, torch.zeros(2, 3, wrong), memory)


@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case.name)
def test_a_memory_of_another_size_is_shown_with_what_to_build(case):
    mechanism, wrong = case.make(), case.memory_size + 1
    keys = {} if case.key_size is None else {"keys": torch.zeros(2, 4, case.key_size)}
    message = rf"(?s)of M={case.memory_size} features.*\(B=2, S=4, M={wrong}\).*={wrong}, or"
    with pytest.raises(ShapeError, match=message):
        prepare(mechanism, torch.zeros(2, 4, wrong), **keys)
    if case.key_size is not None:
        with pytest.raises(ShapeError, match=rf"(?s)keys of M={case.key_size} features"):
            prepare(mechanism, torch.zeros(2, 4, case.memory_size), keys=torch.zeros(2, 4, case.key_size + 1))


def test_a_memory_of_another_size_than_the_second_score_of_mocha_is_shown():
    first, second = AdditiveScore(5, 6, 4), AdditiveScore(5, 7, 4)
    mechanism = Mechanism(first, ChunkwiseAlignment(second, chunk_size=2), WeightedSum(6))
    with pytest.raises(ShapeError, match=r"(?s)values of M=7 features.*\(B=2, S=4, M=6\).*memory_size=6, or"):
        mechanism.prepare(torch.zeros(2, 4, 6))
    with pytest.raises(ShapeError, match=r"(?s)keys of M=7 features.*\(B=2, S=4, M=6\)"):
        mechanism.prepare(torch.zeros(2, 4, 6), keys=torch.zeros(2, 4, 6))


@pytest.mark.parametrize("case", ASKING, ids=lambda case: case.name)
def test_a_sequence_given_to_step_and_a_step_given_to_forward_are_shown_the_other(case):
    mechanism, memory, state = made(case)
    with pytest.raises(ShapeError, match=r"(?s)step takes one query per row.*T=3.*\(forward\); for step t give query"):
        step(mechanism, torch.zeros(2, 3, case.query_size), memory, state)
    with pytest.raises(
        ShapeError, match=r"(?s)forward takes the queries of all steps.*call step, or give query\[:, None\]"
    ):
        forward(mechanism, torch.zeros(2, case.query_size), memory)


@pytest.mark.parametrize("case", DECODERS, ids=lambda case: case.name)
def test_a_decoder_fed_a_sequence_in_step_or_a_step_in_forward_is_shown_the_other(case):
    decoder, sources = case.make(), case.sources()
    memory = decoder.prepare(encode(sources, 0))
    like = next(leaf for leaf in tree.leaves(memory) if leaf.is_floating_point())
    rows = len(sources)
    whole = torch.zeros(rows, 3).long() if case.num_tokens else torch.zeros(rows, 3, case.num_features).to(like)
    with pytest.raises(ShapeError, match=r"(?s)step takes one input per row.*T=3.*for step t give inputs\[:, t\]"):
        decoder.step(whole, memory, decoder.initial_state(memory))
    with pytest.raises(ShapeError, match=r"(?s)forward takes the inputs of all steps.*For one step call step"):
        decoder.forward(whole[:, 0], memory)


def test_a_decoder_shows_a_memory_of_another_size():
    case = DECODERS[0]
    encoded = encode(case.sources(), 0)
    wide = type(encoded)(torch.cat([encoded.memory, encoded.memory], -1), encoded.mask, encoded.final_state)
    with pytest.raises(ShapeError, match=rf"M={tiny.MEMORY_SIZE} features"):
        case.make().prepare(wide)
