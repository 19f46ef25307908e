from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import (
    ArgmaxWindow,
    Attended,
    CausalWindow,
    Intersection,
    Memory,
    SlidingWindow,
    bahdanau,
    gmm,
    multi_head,
)
from regard.testing.oracles import Story, ask

reach = st.one_of(st.none(), st.integers(0, 5))


def memory_of(num_positions):
    return Memory(None, torch.zeros(1, num_positions, 1, 1))


def story(num_positions, step, weights=()):
    """Step number `step` over so many positions, after these weights."""
    memory = [[0.0]] * num_positions
    return Story(0, memory, memory, [[0.0]] * (step + 1), weights=weights)


@given(back=reach, front=reach, steps=st.lists(st.integers(0, 12), min_size=1, max_size=4), width=st.integers(0, 9))
def test_a_sliding_window_allows_what_its_definition_allows(back, front, steps, width):
    window = SlidingWindow(back=back, front=front)
    support, _ = window(torch.zeros(len(steps), 1), memory_of(width), None, torch.tensor(steps))
    expected = [[ask(window, story(width, step)).allowed] for step in steps]
    assert support.support.tolist() == expected


@settings(max_examples=60)
@given(
    back=st.integers(0, 4),
    front=st.integers(0, 4),
    past=st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=5, max_size=5), max_size=4),
)
def test_an_argmax_window_follows_the_last_peak_and_stays_where_nothing_was_seen(back, front, past):
    window, memory = ArgmaxWindow(back=back, front=front), memory_of(5)
    leaf = window.initial(memory, 1)
    for weights in past:
        seen = Attended(torch.zeros(1, 1), torch.tensor(weights)[None, None])
        leaf = window.observe(leaf, seen, torch.zeros(1, 1), None)
    support, _ = window(torch.zeros(1, 1), memory, leaf, torch.zeros(1, dtype=torch.long))
    assert support.support[0, 0].tolist() == ask(window, story(5, len(past), past)).allowed


def test_what_a_causal_window_hides_changes_nothing_and_has_no_gradient():
    mechanism = multi_head(query_size=4, memory_size=4, size=4, num_heads=2, window=CausalWindow()).double()
    x = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    context = mechanism(x, mechanism.prepare(x))[0].context
    for t in range(5):
        (gradient,) = torch.autograd.grad(context[:, t].sum(), x, retain_graph=True)
        assert not gradient[:, t + 1 :].any()
        assert gradient[:, : t + 1].any()


def test_windows_and_masks_hold_together_in_half_precision():
    for dtype in (torch.bfloat16, torch.float16):
        window = Intersection([CausalWindow(), SlidingWindow(back=2, front=None)])
        mechanism = multi_head(query_size=4, memory_size=4, size=4, num_heads=2, window=window).to(dtype)
        x = torch.randn(3, 6, 4, dtype=dtype)
        memory = mechanism.prepare(x, lengths=torch.tensor([6, 2, 0]))
        seen = mechanism(x, memory, alignment=True)[0]
        assert torch.isfinite(seen.context).all()
        assert not seen.alignment[2].any()
        assert not seen.alignment[1, :, 5].any()


def test_an_argmax_window_without_back_never_goes_back():
    mechanism = bahdanau(query_size=5, memory_size=6, size=4, window=ArgmaxWindow(back=0, front=2)).double()
    memory = mechanism.prepare(torch.randn(4, 9, 6, dtype=torch.float64))
    peaks = mechanism(torch.randn(4, 8, 5).double(), memory, alignment=True)[0].alignment.argmax(-1)
    assert (peaks.diff(dim=-1) >= 0).all()


def test_means_of_a_mixture_only_move_forward():
    mechanism = gmm(query_size=5, memory_size=6, size=4).double()
    memory = mechanism.prepare(torch.randn(2, 9, 6, dtype=torch.float64))
    state, means = mechanism.initial_state(memory), []
    for query in torch.randn(6, 2, 5, dtype=torch.float64):
        _, state = mechanism.step(query, memory, state)
        means.append(state.score)
    assert (torch.stack(means).diff(dim=0) > 0).all()


@pytest.mark.parametrize("name", ["back", "front"])
def test_a_window_that_reaches_less_than_nowhere_is_refused(name):
    options = {"back": 1, "front": 1, name: -1}
    with pytest.raises(ValueError, match=r"leave no position: back \+ front must be 0 or more"):
        SlidingWindow(**{**options, name: -2})
    with pytest.raises(ValueError, match=f"{name}=-1"):
        ArgmaxWindow(**options)
