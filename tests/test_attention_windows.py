from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from regard.attention import (
    ArgmaxWindow,
    Attended,
    CausalWindow,
    InEvaluation,
    Intersection,
    Memory,
    PredictiveWindow,
    SlidingWindow,
    Source,
    StepInputs,
    bahdanau,
    cite,
    gmm,
    luong,
    multi_head,
)
from regard.errors import UnsupportedError
from regard.interop.windows import WindowName, argmax_window
from support.oracles import Story, ask

reach = st.one_of(st.none(), st.integers(0, 5))


def memory_of(num_positions):
    return Memory(read=torch.zeros(1, num_positions, 1, 1))


def story(num_positions, step, weights=()):
    """Step number `step` over so many positions, after these weights."""
    memory = [[0.0]] * num_positions
    return Story(0, memory, memory, [[0.0]] * (step + 1), weights=weights)


@given(back=reach, front=reach, steps=st.lists(st.integers(0, 12), min_size=1, max_size=4), width=st.integers(0, 9))
def test_a_sliding_window_allows_what_its_definition_allows(back, front, steps, width):
    window = SlidingWindow(back=back, front=front)
    support, _ = window(StepInputs(torch.zeros(len(steps), 1), memory_of(width), torch.tensor(steps)), None)
    expected = [[ask(window, story(width, step)).allowed] for step in steps]
    assert support.support.tolist() == expected


def allowed(window, num_positions, past=(), mask=None):
    """What a window allows the step after these weights of a head of a row."""
    memory = Memory(read=torch.zeros(1, num_positions, 1, 1), mask=mask)
    inputs = StepInputs(torch.zeros(1, 1), memory, torch.tensor([len(past)]))
    state = window.initial(memory, 1)
    for weights in past:
        seen = Attended(torch.zeros(1, 1), torch.tensor(weights)[None, None])
        state = window.observe(seen, inputs, state)
    support, _ = window(inputs, state)
    return support.support[0, 0].tolist()


@settings(max_examples=80)
@given(
    back=st.integers(0, 4),
    front=st.integers(0, 4),
    centre=st.sampled_from(["argmax", "median"]),
    first=st.sampled_from([0, -1]),
    past=st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=5, max_size=5), max_size=4),
)
def test_an_argmax_window_follows_attention_and_stays_where_nothing_was_seen(back, front, centre, first, past):
    window = ArgmaxWindow(back=back, front=max(front, -first), centre=centre, first=first)
    assert allowed(window, 5, past) == ask(window, story(5, len(past), past)).allowed


# What each implementation allows: at first, and after a step whose highest weight (or median) was at 10.
PEERS = {
    "mozilla": ([0, 1, 2, 3, 4, 5], [7, 8, 9, 10, 11, 12, 13, 14, 15]),
    "coqui": ([0, 1, 2, 3, 4], [8, 9, 10, 11, 12, 13, 14, 15]),
    "deep_voice_3": ([0, 1, 2], [9, 10, 11, 12]),
    "espnet": ([0, 1, 2], [9, 10, 11, 12]),
    "rayhane_window": ([0, 1, 2], [6, 7, 8, 9, 10, 11, 12]),
    "rayhane_monotonic": ([0, 1, 2, 3, 4, 5, 6], [10, 11, 12, 13, 14, 15, 16]),
    "tensorflow_tts": ([0, 1, 2, 3, 4], [8, 9, 10, 11, 12, 13, 14]),
    "chorowski": ([0, 1, 2, 3], [7, 8, 9, 10, 11, 12, 13]),
}


@pytest.mark.parametrize("name", PEERS)
def test_the_window_of_a_peer_allows_what_the_peer_allows(name):
    window = argmax_window(name, reach=3 if name == "chorowski" else None)
    at_first, later = PEERS[name]
    somewhere, at_ten = [0.0, 1.0, 0.0] + [0.0] * 17, [0.0] * 10 + [1.0] + [0.0] * 9
    places = lambda seen: [j for j, inside in enumerate(seen) if inside]  # noqa: E731
    assert places(allowed(window, 20)) == at_first
    assert places(allowed(window, 20, [somewhere, at_ten])) == later
    assert places(allowed(window, 11, [somewhere[:11], at_ten[:11]])) == [j for j in later if j < 11]


def test_every_peer_of_the_table_is_compared():
    assert set(get_args(WindowName)) == set(PEERS)
    assert all(f"`{name}`" in argmax_window.__doc__ for name in PEERS)


def test_the_first_step_of_coqui_counts_as_the_first_position():
    beside = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert allowed(argmax_window("coqui"), 7, [beside]) == [True] * 6 + [False]
    assert allowed(argmax_window("coqui"), 7, [[0.0] * 7]) == [True] * 5 + [False] * 2


def test_the_median_is_not_the_peak():
    weights = [[0.25, 0.25, 0.125, 0.375, 0.0]]
    around = {c: allowed(ArgmaxWindow(back=0, front=0, centre=c), 5, weights).index(True) for c in ("argmax", "median")}
    assert around == {"argmax": 3, "median": 1}


@pytest.mark.parametrize(("first", "expected"), [(0, [2, 3]), (-1, [2])])
def test_a_window_begins_at_the_first_real_position_of_a_source_that_is_padded_in_front(first, expected):
    mask = torch.tensor([[False, False, True, True, True]])
    inside = allowed(ArgmaxWindow(back=1, front=1, first=first), 5, mask=mask)
    assert [j for j in range(5) if inside[j] and mask[0, j]] == expected


@pytest.mark.parametrize("name", sorted(set(PEERS) - {"chorowski"}))
def test_attention_can_stay_at_the_end_for_as_long_as_it_is_asked(name):
    window = argmax_window(name, num_heads=2)
    mechanism = multi_head(query_size=4, memory_size=4, size=4, num_heads=2, window=window)
    lengths = torch.tensor([12, 3, 1])
    seen, state = mechanism(
        torch.randn(3, 40, 4), mechanism.prepare(torch.randn(3, 12, 4), lengths=lengths), alignment=True
    )
    torch.testing.assert_close(seen.alignment.sum(-1), torch.ones(3, 2, 40))
    assert (window.centre(state.window, state.position) < lengths[:, None]).all()


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


def test_a_window_in_evaluation_is_none_in_training_and_goes_on_from_the_state_of_training():
    free = bahdanau(query_size=5, memory_size=6, size=4)
    held = bahdanau(query_size=5, memory_size=6, size=4, window=InEvaluation(ArgmaxWindow(back=0, front=1)))
    always = bahdanau(query_size=5, memory_size=6, size=4, window=ArgmaxWindow(back=0, front=1))
    for other in (held, always):
        other.load_state_dict(free.state_dict())
    assert held.trains_differently
    assert held.is_recurrent
    memory, queries = free.prepare(torch.randn(2, 9, 6)), torch.randn(2, 6, 5)
    trained, state = held(queries, memory, alignment=True)
    torch.testing.assert_close(trained.alignment, free(queries, memory, alignment=True)[0].alignment)
    assert torch.equal(state.window[:, 0], trained.alignment[:, 0, -1].argmax(-1))
    held.eval()
    torch.testing.assert_close(held(queries, memory)[0].context, always(queries, memory)[0].context)
    torch.testing.assert_close(
        held.step(queries[:, 0], memory, state)[0].context, always.step(queries[:, 0], memory, state)[0].context
    )


def predicted(window, query, num_positions, lengths=None):
    """What a predictive window says of rows of queries, a sentence each."""
    mask = None if lengths is None else torch.arange(num_positions) < torch.tensor(lengths)[:, None]
    values = query.new_zeros(len(query), num_positions, 1)
    memory = Memory(window=window.prepare(Source(values, values, mask)), read=values[:, :, None], mask=mask)
    return window(StepInputs(query, memory, torch.zeros(len(query), dtype=torch.long)), None)[0]


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    reach=st.integers(1, 6),
    heads=st.sampled_from([1, 2]),
    padding=st.integers(0, 3),
    scale=st.sampled_from([0.1, 1.0, 10.0, 1e3]),
)
def test_a_predictive_window_lies_where_its_equation_says(lengths, reach, heads, padding, scale):
    window = PredictiveWindow(3, 4, reach=reach, num_heads=heads).double()
    queries = scale * torch.randn(len(lengths), 3, dtype=torch.float64)
    said = predicted(window, queries, max(lengths) + padding, lengths)
    for row, length in enumerate(lengths):
        for head in range(heads):
            memory = [[0.0]] * length
            expected = ask(window, Story(head, memory, memory, [queries[row].tolist()]))
            assert said.support[row, head, :length].tolist() == expected.allowed
            torch.testing.assert_close(said.gain[row, head, :length].tolist(), expected.gain, rtol=0, atol=1e-12)


def test_the_place_of_a_predictive_window_is_learned_through_the_gaussian():
    torch.manual_seed(1)
    mechanism = luong(query_size=6, memory_size=6, local="predictive", reach=4)
    with torch.no_grad():
        memory, query = mechanism.prepare(torch.randn(1, 30, 6)), torch.randn(1, 1, 6)
    optimizer = torch.optim.Adam([*mechanism.window.parameters()], lr=0.05)
    target = 22.0
    for _ in range(200):
        alignment = mechanism(query, memory, alignment=True)[0].alignment[0, 0, 0]
        places = torch.arange(30.0)
        off = (alignment * (places - target).square()).sum() / alignment.sum()
        optimizer.zero_grad()
        off.backward()
        optimizer.step()
    inputs = StepInputs(query[0], memory, torch.zeros(1, dtype=torch.long))
    assert (mechanism.window.predict(inputs) - target).abs() < 1


def test_gain_is_not_renormalised_and_the_softmax_is_that_of_the_window():
    mechanism = luong(query_size=6, memory_size=6, local="predictive", reach=3).double()
    memory, query = mechanism.prepare(torch.randn(2, 20, 6).double()), torch.randn(2, 6).double()
    state = mechanism.initial_state(memory)
    weights = mechanism.step(query, memory, state, alignment=True)[0].alignment
    assert not mechanism.is_normalised
    assert (weights.sum(-1) < 1).all()
    inputs = StepInputs(query, memory, state.position)
    said = mechanism.window(inputs, None)[0]
    energies = mechanism.score(inputs, None)[0]
    inside = energies.masked_fill(~said.support, -torch.inf).softmax(-1)
    torch.testing.assert_close(weights, inside * said.gain)


def test_the_length_is_counted_to_the_last_real_position_also_when_the_memory_grew():
    mechanism = luong(query_size=6, memory_size=6, local="predictive")
    values = torch.randn(1, 8, 6)
    mask = torch.tensor([[True, False, True, False, True, False, False, False]])
    memory = mechanism.prepare(values, mask=mask)
    assert memory.window.amax() == 5
    assert mechanism.extend(memory, values, mask=mask).window.amax() == 13
    assert mechanism.extend(memory, values, mask=torch.zeros_like(mask)).window.amax() == 5
    assert mechanism.extend(memory, values).window.amax() == 16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_places_are_predicted_exactly_enough_in_half_types(dtype):
    window = PredictiveWindow(4, 4, reach=2).to(dtype)
    query = torch.randn(8, 4, dtype=dtype)
    half, full = (predicted(window.to(kind), query.to(kind), 3000) for kind in (dtype, torch.float32))
    assert half.gain.dtype == dtype
    assert half.support.sum(-1).min() >= 2
    distance = (half.support.int().argmax(-1) - full.support.int().argmax(-1)).abs()
    assert distance.max() <= 3000 * torch.finfo(dtype).eps


def test_local_windows_of_luong_are_those_of_the_paper():
    monotonic = luong(query_size=4, memory_size=4, local="monotonic")
    assert (monotonic.window.back, monotonic.window.front) == (10, 10)
    both = luong(query_size=4, memory_size=4, local="predictive", reach=3, window=CausalWindow())
    assert [type(window) for window in both.window.windows] == [PredictiveWindow, CausalWindow]
    assert both.window.width == both.window.windows[0].width == 7


def wraps(draw, inner, depth):
    """A window, perhaps in another."""
    kind = draw(st.sampled_from(["plain", "evaluation", "intersection"])) if depth else "plain"
    if kind == "plain":
        return inner()
    if kind == "evaluation":
        return InEvaluation(wraps(draw, inner, depth - 1))
    return Intersection([wraps(draw, inner, depth - 1) for _ in range(2)])


@settings(max_examples=80)
@given(data=st.data(), width=st.integers(1, 14), steps=st.lists(st.integers(0, 15), min_size=2, max_size=2))
def test_what_a_window_allows_lies_within_its_width_and_at_says_what_it_says_of_all(data, width, steps):
    heads = 2
    near = st.integers(0, 4)

    def draw_one():
        back, front, kind = data.draw(near), data.draw(near), data.draw(st.integers(0, 3))
        if kind == 0:
            return SlidingWindow(back=data.draw(reach), front=front)
        if kind == 1:
            return ArgmaxWindow(back=back, front=front + 1, num_heads=heads, first=data.draw(st.sampled_from([0, -1])))
        return CausalWindow() if kind == 2 else PredictiveWindow(3, 4, reach=back + 1, num_heads=heads)

    window = wraps(data.draw, draw_one, 2).eval()
    values, position, query = torch.zeros(1, width, 1), torch.tensor(steps), torch.randn(2, 3)
    memory = Memory(window=window.prepare(Source(values, values)), read=values[:, :, None])
    state = window.initial(memory, 2)
    inputs, seen = StepInputs(query, memory, position), Attended(torch.zeros(2, 1), torch.rand(2, heads, width))
    state = window.observe(seen, inputs, state)
    whole, _ = window(inputs, state)
    places = torch.randint(0, width, (2, data.draw(st.sampled_from([1, heads])), 4))
    few, _ = window.at(places, inputs, state)
    for name in ("support", "log_prior", "gain"):
        every, some = getattr(whole, name), getattr(few, name)
        assert (every is None) == (some is None)
        if every is not None:
            torch.testing.assert_close(
                some.expand(2, heads, 4), every.expand(2, heads, -1).gather(2, places.expand(2, heads, 4))
            )
    if window.width is not None:
        start = window.start(inputs, state)[..., None]
        beside = (torch.arange(width) < start) | (torch.arange(width) >= start + window.width)
        assert not (whole.support & beside).any()


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ArgmaxWindow(back=1, front=1, centre="mean"), "'mean'"),
        (lambda: ArgmaxWindow(back=1, front=1, first=1), "first=1|Actual value: 1"),
        (lambda: ArgmaxWindow(back=1, front=0, first=-1), "front=0 with first=-1"),
        (lambda: argmax_window("nobody"), "'nobody'"),
        (lambda: argmax_window("chorowski"), "reach=None: 'chorowski' needs a reach"),
        (lambda: argmax_window("coqui", reach=3), "reach=3"),
        (lambda: PredictiveWindow(4, 4, reach=0), "reach=0 must be 1 or more"),
        (lambda: PredictiveWindow(4, 5, num_heads=2), "size=5 must be a multiple of num_heads=2"),
        (lambda: luong(query_size=4, memory_size=4, reach=10), "reach=10 is the reach of a local window"),
        (lambda: luong(query_size=4, memory_size=4, reach=3), "reach=3 is the reach of a local window"),
        (lambda: luong(query_size=4, memory_size=4, local="global"), "local='global' must be"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused_with_the_numbers_given(call, message):
    with pytest.raises((ValueError, TypeCheckError), match=message):
        call()


@pytest.mark.parametrize("wrap", [lambda window: window, InEvaluation, lambda window: Intersection([window])])
@pytest.mark.parametrize("window", [PredictiveWindow(4, 6, num_heads=3), ArgmaxWindow(back=1, front=1, num_heads=3)])
def test_a_window_for_other_heads_is_refused_wherever_it_stands(wrap, window):
    with pytest.raises(UnsupportedError, match=r"3 .*give it num_heads=2"):
        luong(query_size=4, memory_size=4, num_heads=2, window=wrap(window))


def test_one_predicted_place_may_hold_for_all_heads():
    mechanism = luong(query_size=4, memory_size=4, num_heads=2, window=PredictiveWindow(4, 4, reach=2))
    seen, _ = mechanism(torch.randn(1, 3, 4), mechanism.prepare(torch.randn(1, 20, 4)), alignment=True)
    assert torch.equal(seen.alignment[:, 0] > 0, seen.alignment[:, 1] > 0)


def test_windows_say_where_they_come_from():
    assert "Chorowski" in cite(bahdanau(query_size=4, memory_size=4, window=argmax_window("mozilla")))
    assert "Deep Voice 3" in cite(bahdanau(query_size=4, memory_size=4, window=InEvaluation(argmax_window("espnet"))))


def test_a_window_in_evaluation_declares_what_the_window_does():
    window = PredictiveWindow(4, 6, reach=2)
    wrapped = InEvaluation(window)
    for name in ("query_size", "uses_query", "has_gain", "is_bounded", "is_recurrent", "sources"):
        assert getattr(wrapped, name) == getattr(window, name), name
    assert wrapped.trains_differently
    assert list(wrapped.state_dict()) == [f"window.{name}" for name in window.state_dict()]
