from __future__ import annotations

import pytest
import torch

from regard import attention
from regard.attention import Parallel, bahdanau, mocha
from regard.testing import coverage, oracles
from regard.testing.cases import MECHANISMS
from regard.testing.mechanism import move_weights
from regard.testing.subject import Subject

LENGTHS = (6, 1, 4)
STEPS = 4


def compare(case, hypotheses=1):
    """Asserts that a mechanism sees what the oracle of its parts sees, sentence by sentence."""
    mechanism = case.make().double().eval()
    move_weights(mechanism)
    several = isinstance(mechanism, Parallel)
    sizes = case.memory_size if several else (case.memory_size,)
    subject = Subject(mechanism, case.query_size, sizes, several, case.input_size, case.key_size)
    sources = subject.sources(LENGTHS)
    queries = subject.queries(hypotheses * len(LENGTHS), STEPS)
    with torch.no_grad():
        looks = subject.loop(subject.prepare(sources), queries, num_hypotheses=hypotheses)
    fed, keys = subject.inputs(queries), subject.keys(sources)
    for row, query in enumerate(queries.tolist()):
        options = {} if fed is None else {"inputs": fed[row].tolist()}
        real = [
            values[row // hypotheses][mask[row // hypotheses]].tolist()
            for values, mask in zip(sources.values, sources.masks)
        ]
        if several:
            contexts, weights = oracles.attend_in_parallel(mechanism, real, query)
        else:
            if keys is not None:
                options["keys"] = keys[row // hypotheses][sources.masks[0][row // hypotheses]].tolist()
            contexts, weights = oracles.attend(mechanism, real[0], query, **options)
            weights = [weights]
        torch.testing.assert_close(looks.contexts[row].tolist(), contexts, rtol=0, atol=1e-11)
        for ours, theirs in zip(looks.alignments, weights, strict=True):
            expected = torch.tensor(theirs, dtype=torch.float64).transpose(0, 1)
            torch.testing.assert_close(ours[row, ..., : expected.shape[-1]], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("hypotheses", [1, 2])
@pytest.mark.parametrize("case", MECHANISMS, ids=lambda case: case.name)
def test_every_mechanism_sees_what_its_equations_say(case, hypotheses):
    compare(case, hypotheses)


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
