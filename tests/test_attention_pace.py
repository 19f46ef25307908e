"""Attention that moves along the source faster or slower than it was trained to."""

import pytest
import torch

from regard import attention as a
from regard.attention.alignments import TransitionAgent
from regard.errors import ShapeError, UnsupportedError
from regard.interop import coqui

SIZES = {"query_size": 5, "memory_size": 4}
AGENT = {**SIZES, "input_size": 3, "size": 4, "num_filters": 2, "kernel_size": 3, "transition_agent": True}
MIXTURES = {
    "V2": lambda: a.gmm(**SIZES, size=4, num_components=2),
    "V0": lambda: a.gmm(**SIZES, size=4, num_components=2, version="V0"),
    "coqui": lambda: coqui.gmm(**SIZES, num_components=2),
}
MECHANISMS = {"agent": lambda: a.forward_attention(**AGENT), **MIXTURES}


def built(name):
    torch.manual_seed(0)
    return MECHANISMS[name]().double().eval()


def drawn(rows=2, steps=6, positions=12):
    draw = torch.Generator().manual_seed(1)
    sizes = ((rows, positions, 4), (rows, steps, 5), (rows, steps, 3))
    return [torch.randn(*size, generator=draw, dtype=torch.float64) for size in sizes]


def weights(mechanism, pace=None, rows=2):
    values, queries, inputs = drawn(rows)
    memory = mechanism.prepare(values)
    if pace is not None:
        memory = mechanism.at_pace(memory, torch.tensor(pace))
    return mechanism(queries, memory, inputs=inputs, alignment=True)[0].alignment.detach()


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_pace_of_one_changes_nothing(name):
    mechanism = built(name)
    assert torch.allclose(weights(mechanism, [1.0, 1.0]), weights(mechanism), atol=1e-12)


@pytest.mark.parametrize("name", MECHANISMS)
def test_each_sentence_has_its_pace_in_steps_and_sequences(name):
    mechanism = built(name)
    values, queries, inputs = drawn()
    both = weights(mechanism, [0.5, 2.0])
    for row, pace in enumerate([0.5, 2.0]):
        assert torch.allclose(both[row], weights(mechanism, [pace, pace])[row], atol=1e-12)
    memory = mechanism.at_pace(mechanism.prepare(values), torch.tensor([0.5, 2.0]))
    state = mechanism.initial_state(memory, 2)
    for t in range(queries.shape[1]):
        query, given = (each[:, t].repeat_interleave(2, 0) for each in (queries, inputs))
        attended, state = mechanism.step(query, memory, state, inputs=given, alignment=True)
        assert torch.allclose(attended.alignment, both[:, :, t].repeat_interleave(2, 0), atol=1e-12)


@pytest.mark.parametrize("name", MIXTURES)
def test_the_means_of_mixtures_move_as_many_times_as_far(name):
    mechanism = built(name)
    values, queries, _ = drawn()

    def means(memory):
        state = mechanism.initial_state(memory)
        for t in range(queries.shape[1]):
            _, state = mechanism.step(queries[:, t], memory, state)
        return state.score

    memory = mechanism.prepare(values)
    assert torch.allclose(means(mechanism.at_pace(memory, torch.tensor([3.0, 0.25]))),
                          means(memory) * torch.tensor([3.0, 0.25])[:, None, None], atol=1e-6)  # fmt: skip


def test_the_odds_of_moving_on_are_multiplied():
    agent = TransitionAgent(4, 5, input_size=3).double()
    parts = [torch.randn(2, size, dtype=torch.float64) for size in (4, 5, 3)]
    plain, paced = agent(*parts), agent(*parts, torch.tensor([2.0, 0.5], dtype=torch.float64))
    assert torch.allclose(paced / (1 - paced), plain / (1 - plain) * torch.tensor([[2.0], [0.5]]))


def test_attention_with_an_agent_arrives_earlier_and_later():
    mechanism = built("agent")
    positions = torch.arange(12, dtype=torch.float64)
    reached = [float((weights(mechanism, [pace, pace])[:, 0, -1] @ positions).mean()) for pace in (0.25, 0.5, 1, 2, 4)]
    assert reached == sorted(reached)
    assert reached[-1] > reached[0] + 1


@pytest.mark.parametrize(
    "mechanism", [a.bahdanau(**SIZES, size=4), a.forward_attention(**SIZES, size=4), a.multi_head(**SIZES, num_heads=2)]
)
def test_what_has_no_pace_says_so(mechanism):
    with pytest.raises(UnsupportedError, match="pace"):
        mechanism.at_pace(mechanism.prepare(torch.zeros(2, 3, 4)), torch.ones(2))


def test_a_pace_is_a_factor_for_each_sentence():
    mechanism = a.gmm(**SIZES, size=4)
    with pytest.raises(ShapeError, match=r"\(B=2,\)"):
        mechanism.at_pace(mechanism.prepare(torch.zeros(2, 3, 4)), torch.ones(3))


def test_an_attention_within_another_has_its_pace():
    values, queries, _ = drawn()
    mechanism = built("V2")
    whole = a.Projected(mechanism, 3).double().eval()
    memory = whole.at_pace(whole.prepare(values), torch.tensor([0.5, 2.0]))
    assert torch.allclose(whole(queries, memory, alignment=True)[0].alignment, weights(mechanism, [0.5, 2.0]))
