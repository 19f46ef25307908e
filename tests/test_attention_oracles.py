from __future__ import annotations

import pytest
import torch

from regard import attention
from regard.attention import bahdanau, mocha
from support import coverage, oracles
from support.cases import MECHANISMS


@pytest.mark.parametrize("hypotheses", [1, 2])
@pytest.mark.parametrize("case", MECHANISMS, ids=lambda case: case.name)
def test_every_mechanism_sees_what_its_equations_say(case, hypotheses):
    oracles.require_agreement(case, hypotheses)


def test_every_part_has_an_oracle():
    parts = [x for x in coverage.public() if isinstance(x, type) and issubclass(x, attention.AbstractPart)]
    assert [part.__name__ for part in parts if part not in oracles.ORACLES] == []


def _prepared(mechanism, seed=0):
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(2, 6, 6, generator=draw, dtype=torch.float64)
    return mechanism.prepare(values, lengths=torch.tensor([6, 4])), torch.randn(2, 5, 5, generator=draw).double()


def test_a_window_as_wide_as_the_source_is_no_window():
    torch.manual_seed(3)
    free = bahdanau(query_size=5, memory_size=6, size=4).double()
    memory, queries = _prepared(free)
    expected = free(queries, memory)[0].context
    for window in (attention.ArgmaxWindow(back=6, front=6), attention.SlidingWindow(back=6, front=6)):
        held = bahdanau(query_size=5, memory_size=6, size=4, window=window).double()
        held.load_state_dict(free.state_dict())
        torch.testing.assert_close(held(queries, memory)[0].context, expected)


def test_mocha_with_chunks_of_one_reads_the_expected_monotonic_alignment():
    mechanism = mocha(query_size=5, memory_size=6, size=4, chunk_size=1).double()
    memory, queries = _prepared(mechanism)
    seen, state = mechanism(queries, memory, alignment=True)
    torch.testing.assert_close(seen.alignment[:, :, -1], state.alignment)


def test_self_pooling_gives_one_context_a_sentence():
    mechanism = attention.self_pooling(memory_size=6, size=4, num_heads=2).double()
    memory, _ = _prepared(mechanism)
    pooled = mechanism.pool(memory)
    stepped, _ = mechanism.step(torch.zeros(2, 0).double(), memory, mechanism.initial_state(memory), alignment=True)
    assert pooled.context.shape == (2, 12)
    torch.testing.assert_close(pooled.context, stepped.context)
    torch.testing.assert_close(pooled.alignment, stepped.alignment)
