"""Readers that never go back, and attention that stays or moves on."""

from __future__ import annotations

import math

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import ops
from regard.attention import (
    AdditiveScore,
    BilinearScore,
    ChunkwiseAlignment,
    DotScore,
    ForwardAlignment,
    Mechanism,
    Memory,
    MonotonicAlignment,
    SlidingWindow,
    SoftmaxAlignment,
    StepInputs,
    StepwiseAlignment,
    TransitionAgent,
    WeightedSum,
    bahdanau,
    cite,
    forward_attention,
    milk,
    mocha,
    monotonic,
)
from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.ops.forward import move_on
from regard.ops.monotonic import parallel_alignment, reference_alignment, reference_chunk_softmax

SIZES = {"query_size": 5, "memory_size": 6}
PROBABILITIES = {
    "between .1 and .9": (0.1, 0.8),
    "tiny": (0.0, 1e-3),
    "next to nothing": (0.0, 1e-7),
    "near 1": (1 - 1e-4, 1e-4),
}


def drawn(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def at_first(rows, width):
    return torch.nn.functional.one_hot(torch.zeros(rows, dtype=torch.long), width).double()


def looked(mechanism, *, lengths=(7, 4), steps=5, seed=0, scale=1.0):
    """The alignments (B, H, T, S) of a mechanism in float64 for drawn queries, and the last state."""
    mechanism = mechanism.double().eval()
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(len(lengths), max(lengths), 6, generator=generator, dtype=torch.float64)
    queries = torch.randn(len(lengths), steps, 5, generator=generator, dtype=torch.float64) * scale
    memory = mechanism.prepare(values, lengths=torch.tensor(lengths))
    seen, state = mechanism(queries, memory, inputs=queries[..., :3], alignment=True)
    return seen.alignment.detach(), state


def weigh(alignment, energies, state, support=None):
    """The weights of one row of energies, and the leaf."""
    energies = torch.tensor(energies)[None, None]
    memory = Memory(read=torch.zeros(1, energies.shape[-1], 1, 1))
    state = alignment.initial(memory, 1) if state is None else state
    support = None if support is None else torch.tensor(support)[None, None]
    inputs = StepInputs(torch.zeros(1, 2), memory, torch.zeros(1, dtype=torch.long))
    weights, state, _ = alignment(energies, support, inputs, state)
    return weights.flatten().tolist(), state


@pytest.mark.parametrize("kind", PROBABILITIES)
def test_in_float32_two_thousand_positions_are_read_as_in_float64_for_five_steps(kind):
    low, width = PROBABILITIES[kind]
    exact, single = at_first(4, 2000), at_first(4, 2000).float()
    worst = 0.0
    for step in range(5):
        choose = (low + width * drawn(4, 2000, seed=step)).float()
        exact = reference_alignment(choose.double(), exact)
        single = ops.expected_monotonic_alignment(choose, single)
        worst = max(worst, float((single - exact).abs().max()), float((single.sum(-1) - exact.sum(-1)).abs().max()))
    print(f"S=2000, p {kind}: largest error of a weight or of a row's sum in five steps {worst:.1e}")
    assert worst < 1e-5


def test_the_clipped_form_loses_mass_in_a_source_of_two_hundred_and_ours_does_not():
    choose = (0.1 + 0.8 * drawn(4, 200)).float()
    previous = torch.full((4, 200), 1 / 200)
    exact = reference_alignment(choose.double(), previous.double())
    ours = ops.expected_monotonic_alignment(choose, previous)
    clipped = ops.clipped_monotonic_alignment(choose, previous)
    torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-9)
    assert exact.sum(-1).min() > 0.99
    assert clipped.sum(-1).max() < 0.2
    print(f"S=200: sums {[round(x, 2) for x in clipped.sum(-1).tolist()]} clipped, {ours.sum(-1).min():.4f} ours")


def test_the_clipped_form_is_the_recursion_in_a_short_source():
    choose, previous = drawn(3, 10), drawn(3, 10, seed=1) / 10
    exact = reference_alignment(choose, previous)
    torch.testing.assert_close(ops.clipped_monotonic_alignment(choose, previous), exact, rtol=0, atol=1e-12)


def test_every_weight_of_a_long_source_is_relatively_right():
    choose = 0.1 + 0.8 * drawn(2, 300)
    exact = reference_alignment(choose.float().double(), at_first(2, 300))
    ours = parallel_alignment(choose.float(), at_first(2, 300).float()).double()
    normal = exact > torch.finfo(torch.float32).tiny
    assert float(((ours - exact).abs() / exact)[normal].max()) < 1e-4


@given(st.integers(0, 40), st.integers(1, 3))
def test_doubling_is_the_recursion_at_any_length(width, rows):
    choose, previous = drawn(rows, width), drawn(rows, width, seed=1)
    exact = reference_alignment(choose, previous)
    torch.testing.assert_close(parallel_alignment(choose, previous), exact, rtol=1e-12, atol=1e-15)


def test_doubling_can_be_differentiated_twice_and_mapped():
    choose, previous = drawn(2, 11).requires_grad_(), drawn(2, 11, seed=1).requires_grad_()
    assert torch.autograd.gradgradcheck(parallel_alignment, (choose, previous))
    mapped = torch.vmap(parallel_alignment)(choose, previous)
    torch.testing.assert_close(mapped, parallel_alignment(choose, previous))


def test_a_long_step_can_be_exported_and_the_choice_is_explained():
    class Reader(torch.nn.Module):
        def forward(self, choose, previous):
            return ops.expected_monotonic_alignment(choose, previous)

    given_ = (drawn(2, 20), at_first(2, 20))
    exported = torch.export.export(Reader(), given_).module()
    torch.testing.assert_close(exported(*given_), ops.expected_monotonic_alignment(*given_))
    few = ops.explain("expected_monotonic_alignment", drawn(2, 3), at_first(2, 3))
    assert "parallel: refused: 3 positions are as quickly read one after the other; it pays from 9" in few
    narrow = ops.explain("moving_chunk_softmax", drawn(1, 1, 9), drawn(1, 1, 9), None, 4)
    assert "parallel: refused: chunks of 4 among 9 positions begin at different places" in narrow


def test_half_types_are_read_in_float32():
    choose, previous = drawn(2, 64), at_first(2, 64)
    for dtype in (torch.bfloat16, torch.float16):
        rounded = choose.to(dtype)
        expected = ops.expected_monotonic_alignment(rounded.double(), previous)
        ours = ops.expected_monotonic_alignment(rounded, previous.to(dtype))
        assert ours.dtype == dtype
        assert torch.equal(ours, expected.float().to(dtype))


@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0, 1), st.booleans()), min_size=1, max_size=9),
)
def test_an_infinite_look_back_is_a_chunk_as_wide_as_the_source(positions):
    energies, stops, support = (torch.tensor([[column]]) for column in zip(*positions, strict=True))
    energies, stops = energies.double().requires_grad_(), stops.double()
    wide = reference_chunk_softmax(stops, energies, support, energies.shape[-1])
    for width in (None, energies.shape[-1], energies.shape[-1] + 3):
        back = ops.moving_chunk_softmax(stops, energies, support, width)
        torch.testing.assert_close(back, wide, rtol=1e-9, atol=1e-12)
    (gradient,) = torch.autograd.grad(back.square().sum(), energies)
    (expected,) = torch.autograd.grad(wide.square().sum(), energies)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-9)


def test_an_infinite_look_back_is_stable_over_two_thousand_positions():
    energies = (200 * drawn(1, 2, 2000) - 100).float()
    stops = drawn(1, 2, 2000, seed=1).float() / 1000
    exact = reference_chunk_softmax(stops.double(), energies.double(), None, None)
    torch.testing.assert_close(ops.moving_chunk_softmax(stops, energies, None, None).double(), exact, rtol=0, atol=1e-6)


def test_a_hard_reader_stops_at_the_first_position_above_a_half_from_where_it_was():
    choose = torch.tensor([[0.9, 0.2, 0.7, 0.8]]).expand(4, 4)
    previous = torch.eye(4)
    expected = torch.tensor([[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    assert torch.equal(ops.hard_monotonic_alignment(choose, previous), expected)
    assert torch.equal(ops.hard_monotonic_alignment(torch.full((1, 4), 0.5), previous[:1]), torch.zeros(1, 4))


def test_a_hard_reader_past_the_end_sees_nothing_from_then_on():
    alignment, state = MonotonicAlignment(hard="always", bias=0.0), None
    seen = []
    for energies in ([-1.0, 9.0, -1.0], [9.0, -1.0, -1.0], [9.0, 9.0, 9.0]):
        weights, state = weigh(alignment, energies, state)
        seen.append(weights)
    assert seen == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_a_hard_reader_that_keeps_what_remains_stays_at_the_last_position_that_is_there():
    alignment, state = MonotonicAlignment(hard="always", bias=0.0, remaining="last"), None
    for energies in ([-1.0, -1.0, -1.0, 9.0], [9.0, -1.0, -1.0, 9.0], [9.0, 9.0, -1.0, 9.0]):
        weights, state = weigh(alignment, energies, state, [True, True, True, False])
        assert weights == [0, 0, 1, 0]


def test_what_remains_keeps_the_sum_at_one_and_is_lost_otherwise():
    kept, _ = looked(monotonic(**SIZES, size=4, num_heads=2, remaining="last"), steps=9)
    torch.testing.assert_close(kept.sum(-1), torch.ones(2, 2, 9, dtype=torch.float64))
    lost, _ = looked(monotonic(**SIZES, size=4, num_heads=2), steps=9)
    assert (lost.sum(-1).diff(dim=-1) < 0).all()


@pytest.mark.parametrize("score", ["additive", "general"])
def test_saturated_energies_make_the_expected_reader_the_hard_one(score):
    torch.manual_seed(0)
    soft = monotonic(**SIZES, score=score, bias=0.0).double()
    hard = monotonic(**SIZES, score=score, bias=0.0, hard="evaluation").double()
    for mechanism in (soft, hard):
        torch.manual_seed(1)
        with torch.no_grad():
            for name, parameter in mechanism.score.named_parameters():
                parameter.normal_().mul_(1e6 if name in ("gain", "dot.scale") else 1)
    ours, expected = looked(hard)[0], looked(soft)[0]
    torch.testing.assert_close(ours, expected)
    assert ours.eq(0).logical_or(ours.eq(1)).all()
    assert ours.any()


def test_a_chunk_of_one_is_the_reader_and_a_hard_chunk_is_a_softmax_that_ends_where_it_stops():
    torch.manual_seed(0)
    chunked, plain = mocha(**SIZES, size=4, chunk_size=1), monotonic(**SIZES, size=4)
    plain.load_state_dict(
        {
            name.replace("reader.", ""): weight
            for name, weight in chunked.state_dict().items()
            if "chunk_score" not in name
        }
    )
    torch.testing.assert_close(looked(chunked)[0], looked(plain)[0])
    hard = mocha(**SIZES, size=4, chunk_size=3, hard="always", bias=0.1)
    weights, state = looked(hard, lengths=(7, 7), steps=1)
    for row, stop in zip(weights[:, 0, 0], state.alignment[:, 0], strict=True):
        end = int(stop.argmax())
        assert stop.sum() == 1
        assert row.nonzero().flatten().tolist() == list(range(max(0, end - 2), end + 1))
        assert row.sum() == pytest.approx(1)


def test_milk_is_mocha_with_a_chunk_as_wide_as_the_source():
    torch.manual_seed(0)
    infinite, wide = (
        milk(**SIZES, size=4, num_heads=2),
        mocha(**SIZES, size=4, num_heads=2, chunk_size=7, remaining="last"),
    )
    wide.load_state_dict(infinite.state_dict())
    torch.testing.assert_close(looked(infinite)[0], looked(wide)[0])


def test_noise_is_drawn_in_training_alone_and_from_the_generator():
    mechanism = monotonic(**SIZES, size=4, noise=1.0)
    memory = mechanism.prepare(torch.ones(2, 6, 6))
    queries = torch.ones(2, 3, 5)

    def see(seed):
        return mechanism(queries, memory, generator=torch.Generator().manual_seed(seed), alignment=True)[0].alignment

    mechanism.train()
    assert torch.equal(see(0), see(0))
    assert not torch.equal(see(0), see(1))
    mechanism.eval()
    assert torch.equal(see(0), see(1))


@pytest.mark.parametrize(
    ("options", "random", "differently", "normalised"),
    [
        ({}, False, False, False),
        ({"noise": 1.0}, True, True, False),
        ({"hard": "evaluation", "remaining": "last"}, False, True, True),
        ({"hard": "always"}, False, False, False),
    ],
)
def test_what_a_reader_says_of_itself_follows_from_its_options(options, random, differently, normalised):
    for mechanism in (monotonic(**SIZES, **options), mocha(**SIZES, **options)):
        assert mechanism.is_random == random
        assert mechanism.trains_differently == differently
        assert mechanism.is_normalised == normalised


def test_like_tfa_is_its_parallel_form():
    torch.manual_seed(0)
    clipped, exact = (monotonic(**SIZES, size=4, like=like) for like in ("tfa_parallel", None))
    exact.load_state_dict(clipped.state_dict())
    torch.testing.assert_close(looked(clipped)[0], looked(exact)[0])
    far = torch.full((1, 1, 200), 1 / 200)
    (lossy, _), (whole, _) = (weigh(m.alignment.float(), [0.9] * 200, far) for m in (clipped, exact))
    assert sum(lossy) < 0.3
    assert sum(whole) > 0.98


def test_the_recursive_mode_of_tensorflow_addons_is_the_exact_reader_over_200_positions():
    chances = torch.rand(200, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
    reader = MonotonicAlignment(bias=0.0, learned_bias=False)
    weights, _ = weigh(reader, chances.logit().tolist(), torch.full((1, 1, 200), 1 / 200))
    passed, scanned = 0.0, []
    for p in chances.tolist():
        scanned.append(p * (passed + 1 / 200))
        passed = (1 - p) * (passed + 1 / 200)
    torch.testing.assert_close(torch.tensor(weights), torch.tensor(scanned), rtol=0, atol=1e-6)


def test_a_fixed_bias_is_no_parameter():
    assert "alignment.bias" in monotonic(**SIZES).state_dict()
    assert "alignment.bias" not in monotonic(**SIZES, learned_bias=False).state_dict()


def by_hand(energies, support, place, u, floor=0.0):
    """α of the paper for one row, as a loop."""
    top = max(e for e, inside in zip(energies, support, strict=True) if inside)
    y = [math.exp(e - top) if inside else 0.0 for e, inside in zip(energies, support, strict=True)]
    scores = [
        ((1 - u) * place[n] + u * (place[n - 1] if n else 0.0) + floor) * y[n] / sum(y) for n in range(len(energies))
    ]
    return [score / sum(scores) for score in scores]


@pytest.mark.parametrize("floor", [0.0, 1e-8])
def test_forward_alignment_is_the_formula(floor):
    energies, place, u = drawn(1, 1, 6) * 4, drawn(1, 1, 6, seed=1), drawn(1, 1, seed=2)
    support = torch.tensor([[[True, False, True, True, True, False]]])
    ours = ops.forward_alignment(energies, place, u, support, floor)
    expected = by_hand(
        energies.flatten().tolist(), support.flatten().tolist(), place.flatten().tolist(), float(u), floor
    )
    torch.testing.assert_close(ours.flatten().tolist(), expected, rtol=1e-12, atol=0)


def test_without_an_agent_half_stays_and_half_moves_which_is_the_papers_sum():
    place = drawn(2, 1, 5)
    shifted = torch.nn.functional.pad(place, (1, 0))[..., :-1]
    torch.testing.assert_close(2 * move_on(place, torch.full((2, 1), 0.5)), place + shifted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_forward_attention_moves_on_where_softmax_leaves_nothing_that_can_be_reached(dtype):
    energies = torch.tensor([[[0.0, -5.0, 3000.0, 3000.0]]], dtype=dtype).requires_grad_()
    place = torch.tensor([[[1.0, 0.0, 0.0, 0.0]]], dtype=dtype)
    weights = ops.forward_alignment(energies, place, torch.full((1, 1), 0.5, dtype=dtype), None)
    assert weights[..., 2:].eq(0).all()
    assert float(weights.detach().sum()) == pytest.approx(1, abs=1e-3)
    assert weights[0, 0, 0] > weights[0, 0, 1] > 0
    (gradient,) = torch.autograd.grad(weights[..., 0].sum(), energies)
    assert torch.isfinite(gradient).all()


def test_forward_attention_begins_anew_where_a_window_allows_nothing_that_can_be_reached():
    energies, place = drawn(1, 1, 5), at_first(1, 5)[None]
    support = torch.tensor([[[False, False, False, True, True]]])
    weights = ops.forward_alignment(energies, place, torch.full((1, 1), 0.5).double(), support)
    torch.testing.assert_close(weights, ops.masked_softmax(energies, support))
    nothing = ops.forward_alignment(energies, place, torch.full((1, 1), 0.5).double(), torch.zeros_like(support))
    assert nothing.eq(0).all()


def test_a_row_that_saw_nothing_stays_where_it_was():
    alignment = ForwardAlignment()
    _, before = weigh(alignment, [0.0, 1.0, 2.0, 3.0], None)
    weights, after = weigh(alignment, [0.0, 1.0, 2.0, 3.0], before, [False] * 4)
    assert weights == [0, 0, 0, 0]
    assert torch.equal(after.alignment, before.alignment)


def test_forward_attention_keeps_up_with_a_window_that_moves():
    free = Mechanism(BilinearScore(5, 6), ForwardAlignment(), WeightedSum(6), SlidingWindow(back=1, front=1))
    weights, _ = looked(free, lengths=(9, 9), steps=9, scale=5.0)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 9, dtype=torch.float64))
    position = torch.arange(9)
    inside = (position[None] - position[:, None]).abs() <= 1
    assert weights[..., ~inside].eq(0).all()


def test_attention_never_moves_further_than_one_position_a_step():
    weights, _ = looked(forward_attention(**SIZES, size=4, kernel_size=3), lengths=(9, 9), steps=5)
    for step in range(5):
        assert weights[:, :, step, step + 2 :].eq(0).all()
        assert weights[:, :, step, : step + 2].gt(0).all()


def test_an_agent_that_always_moves_walks_and_one_that_never_does_stays():
    for offset, expected in ((50.0, 4), (-50.0, 1)):
        mechanism = forward_attention(
            **SIZES, input_size=3, size=4, score="additive", transition_agent=True, num_heads=2
        )
        with torch.no_grad():
            mechanism.alignment.agent.output.bias.fill_(offset)
            mechanism.score.v.zero_()
        weights, state = looked(mechanism, lengths=(9, 9), steps=4)
        assert state.alignment.move.shape == (2, 2)
        reached = weights[:, :, -1].argmax(-1)
        assert ((reached - expected).abs() <= 1).all()
        assert weights[:, :, -1].amax() > 0.49


def test_the_agent_reads_what_was_fed_at_the_step_before():
    torch.manual_seed(0)
    mechanism = forward_attention(**SIZES, input_size=3, size=4, score="additive", transition_agent=True).double()
    memory = mechanism.prepare(drawn(1, 6, 6))
    queries, inputs = drawn(1, 3, 5), drawn(1, 3, 3, seed=2)
    other = inputs.clone()
    other[:, 1] += 1
    first, second = (mechanism(queries, memory, inputs=fed, alignment=True)[0].alignment for fed in (inputs, other))
    assert torch.equal(first[:, :, :2], second[:, :, :2])
    assert not torch.allclose(first[:, :, 2], second[:, :, 2])


def test_like_espnet_gives_every_position_at_least_a_millionth_padding_too():
    torch.manual_seed(0)
    mechanism = forward_attention(**SIZES, size=4, score="additive", like="espnet")
    weights, _ = looked(mechanism, lengths=(7, 4), steps=3)
    assert weights[1, 0, :, 4:].gt(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 3, dtype=torch.float64))
    softmax, _ = looked(Mechanism(mechanism.score, SoftmaxAlignment(), WeightedSum(6)), lengths=(7, 4), steps=3)
    place = at_first(2, 7)
    for step in range(3):
        moved = torch.nn.functional.pad(place, (1, 0))[:, :-1]
        place = ((place + moved) * softmax[:, 0, step]).clamp(min=1e-6)
        place = place / place.sum(-1, keepdim=True)
        torch.testing.assert_close(weights[:, 0, step], place)


def test_like_espnet_the_probability_to_stay_is_ours_to_move_with_negated_weights():
    torch.manual_seed(0)
    mechanism = forward_attention(
        **SIZES, input_size=3, size=4, score="additive", transition_agent=True, like="espnet"
    ).double()
    agent = mechanism.alignment.agent
    assert agent.hidden is None
    seen = [drawn(2, 6), drawn(2, 3), drawn(2, 5)]
    stay = torch.sigmoid(-(torch.cat(seen, -1) @ agent.output.weight.T + agent.output.bias))
    torch.testing.assert_close(agent(seen[0], seen[2], seen[1]), 1 - stay)


def test_like_coqui_padding_gets_nothing_and_the_formula_is_theirs():
    torch.manual_seed(0)
    mechanism = forward_attention(**SIZES, size=4, score="additive", like="coqui", transition_agent=True)
    agent = mechanism.alignment.agent
    assert agent.hidden is None
    assert agent.input_size is None
    weights, _ = looked(mechanism, lengths=(7, 4), steps=2)
    assert weights[1, 0, :, 4:].eq(0).all()
    softmax, _ = looked(Mechanism(mechanism.score, SoftmaxAlignment(), WeightedSum(6)), lengths=(7, 4), steps=2)
    start = at_first(2, 7).clamp(min=1e-7)
    scores = (0.5 * start + 0.5 * torch.nn.functional.pad(start, (1, 0))[:, :-1] + 1e-8) * softmax[:, 0, 0]
    torch.testing.assert_close(weights[:, 0, 0], scores / scores.sum(-1, keepdim=True), rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: MonotonicAlignment(noise=-1), ValueError, "noise=-1 is a standard deviation"),
        (lambda: MonotonicAlignment(hard="sometimes"), UnsupportedError, "hard='sometimes' must be one of 'never'"),
        (lambda: MonotonicAlignment(remaining="first"), UnsupportedError, "remaining='first' must be one of 'lost'"),
        (lambda: monotonic(**SIZES, like="espnet"), UnsupportedError, "like='espnet' must be 'tfa_parallel', or None"),
        (
            lambda: ChunkwiseAlignment(DotScore(6, 6), chunk_size=2, reader=MonotonicAlignment(num_heads=2)),
            ValueError,
            "The reader has 2 heads and the chunk score 1",
        ),
        (
            lambda: Mechanism(AdditiveScore(5, 6, 4, num_heads=2), MonotonicAlignment(), WeightedSum(6, num_heads=2)),
            UnsupportedError,
            "MonotonicAlignment has readers for 1 heads .* give it num_heads=2",
        ),
        (
            lambda: Mechanism(AdditiveScore(5, 6, 4, num_heads=2), ForwardAlignment(), WeightedSum(6, num_heads=2)),
            UnsupportedError,
            "give it num_heads=2",
        ),
        (
            lambda: Mechanism(DotScore(6, 6), ForwardAlignment(agent=TransitionAgent(5, 6)), WeightedSum(6)),
            UnsupportedError,
            "build it with context_size=6",
        ),
        (lambda: ForwardAlignment(num_heads=2, agent=TransitionAgent(6, 6)), ValueError, "that of the agent, 1"),
        (
            lambda: forward_attention(**SIZES, like="tfa"),
            UnsupportedError,
            "like='tfa' must be 'coqui' or 'espnet', or None",
        ),
        (lambda: forward_attention(**SIZES, transition_agent=True), UnsupportedError, "give input_size"),
        (lambda: forward_attention(**SIZES, score="dot"), UnsupportedError, "score='dot' must be"),
        (
            lambda: forward_attention(**SIZES, score="additive", kernel_size=3),
            UnsupportedError,
            "kernel_size: score='additive' has no filters",
        ),
        (lambda: forward_attention(**SIZES, agent_size=4), UnsupportedError, "agent_size=4 is the width"),
        (
            lambda: forward_attention(**SIZES, transition_agent=True, like="coqui", agent_size=4),
            UnsupportedError,
            "without like",
        ),
        (
            lambda: monotonic(**SIZES, like="tfa_parallel", hard="always"),
            UnsupportedError,
            "there is no expected alignment",
        ),
        (lambda: StepwiseAlignment(hard="allways"), UnsupportedError, "hard='allways' must be one of 'never'"),
        (lambda: StepwiseAlignment(remaining="first"), UnsupportedError, "remaining='first' must be one of 'lost'"),
        (lambda: monotonic(**SIZES, score="concat"), UnsupportedError, "score='concat' must be"),
        (lambda: monotonic(**SIZES, score="general", size=4), UnsupportedError, "score='general' has none"),
        (lambda: monotonic(**SIZES, score="dot"), ShapeError, "must be equal"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(call, error, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as outside tests, where types are not checked
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("inputs", [None, torch.zeros(2, 4), torch.zeros(2, dtype=torch.long)])
def test_an_agent_that_is_not_given_what_it_sees_says_so(inputs):
    mechanism = forward_attention(**SIZES, input_size=3, transition_agent=True)
    memory = mechanism.prepare(torch.zeros(2, 4, 6))
    with pytest.raises(RegardError, match=r"inputs \(R=2, F=3\); got (none|\(2, 4\)|\(2,\))"):
        mechanism.step(torch.zeros(2, 5), memory, mechanism.initial_state(memory), inputs=inputs)


def test_each_is_cited():
    assert "raffel2017" in cite(monotonic(**SIZES))
    assert "arivazhagan2019" in cite(milk(**SIZES))
    assert "chiu2018" in cite(mocha(**SIZES))
    assert "zhang2018" in cite(forward_attention(**SIZES))
    assert "zhang2018" not in cite(bahdanau(**SIZES))
