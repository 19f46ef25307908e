"""Attention that knows of positions, and heads that share keys and values."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import (
    BucketBiasWindow,
    CausalWindow,
    Intersection,
    LinearBiasWindow,
    Mechanism,
    ProjectedSum,
    RelativeDotScore,
    RelativeSum,
    RotaryDotScore,
    ScaledDotScore,
    SlidingWindow,
    SoftmaxAlignment,
    Source,
    StepInputs,
    TransformerXLScore,
    WeightedSum,
    cite,
    multi_head,
)
from regard.errors import RegardError, ShapeError, UnsupportedError
from support.oracles.windows import bucket

POSITIONS = ("rotary", "linear_bias", "buckets", "relative", "transformer_xl")


@pytest.fixture(autouse=True)
def _in_float64():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def moved(module):
    """Weights away from their beginnings: biases that start at 0 hide faults."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def reading(score, window=None, *, read=None, **options):
    """A mechanism of as many heads as the score has, over a memory of 6 features."""
    return Mechanism(score, SoftmaxAlignment(), read or WeightedSum(6, num_heads=score.num_heads), window, **options)


def energies(score, queries, values, *, first=0):
    """Energies (T, H, S) of queries (T, Q) from step `first` on, over one source (S, M) without padding."""
    mechanism = reading(score)
    memory = mechanism.prepare(values[None])
    position = torch.arange(first, first + len(queries))
    return score(StepInputs(queries, memory, position), None)[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: RotaryDotScore(5, 6, 8, num_heads=2),
        lambda: RotaryDotScore(5, 6, 8, num_heads=2, layout="half", rotary_size=2),
        lambda: RelativeDotScore(5, 6, 8, num_heads=2, max_distance=3),
        lambda: TransformerXLScore(5, 6, 8, num_heads=2),
    ],
)
def test_energies_know_the_offset_and_not_the_place(make):
    score, shift = moved(make()), 9
    queries, values = torch.randn(4, 5), torch.randn(7, 6)
    later = energies(score, queries, torch.cat([torch.randn(shift, 6), values]), first=shift)
    torch.testing.assert_close(later[..., shift:], energies(score, queries, values), rtol=0, atol=1e-12)
    assert not torch.allclose(energies(score, queries, values, first=1), energies(score, queries, values))


def test_what_has_not_turned_is_the_scaled_dot_product():
    score = RotaryDotScore(5, 6, 8, num_heads=2)
    query, value = torch.randn(1, 5), torch.randn(1, 6)
    torch.testing.assert_close(energies(score, query, value), energies(score.content, query, value))


def test_one_layout_is_the_other_with_its_weights_permuted():
    neighbours, halves = RotaryDotScore(5, 6, 16, num_heads=2), RotaryDotScore(5, 6, 16, num_heads=2, layout="half")
    order = torch.arange(16).view(2, 4, 2).transpose(1, 2).flatten()
    with torch.no_grad():
        for name, weight in neighbours.named_parameters():
            halves.get_parameter(name).copy_(weight[order])
    queries, values = torch.randn(3, 5), torch.randn(7, 6)
    torch.testing.assert_close(energies(halves, queries, values), energies(neighbours, queries, values))
    halves.load_state_dict(neighbours.state_dict())
    assert not torch.allclose(energies(halves, queries, values), energies(neighbours, queries, values))


def test_features_beyond_the_rotary_size_do_not_turn():
    score = RotaryDotScore(6, 6, 6, rotary_size=4)
    with torch.no_grad():
        for weight in score.parameters():
            weight.copy_(torch.eye(6))
            weight[:4] = 0
    query = torch.randn(1, 6)
    found = energies(score, query, query.expand(5, -1), first=3)
    torch.testing.assert_close(found, (query[:, 4:].square().sum() / 6**0.5).expand(1, 1, 5))


@pytest.mark.parametrize("make", [RotaryDotScore, TransformerXLScore])
def test_a_million_steps_later_the_angles_still_have_the_precision_of_float32(make):
    score, far = moved(make(5, 6, 8, num_heads=2)), 1_000_000
    queries, values = torch.randn(2, 5), torch.randn(3, 6)

    def beside(dtype):
        own, memory = score.to(dtype), values.to(dtype)[None]
        keys = own.prepare(Source(memory, memory, None, far))
        inputs = StepInputs(queries.to(dtype), reading(own).prepare(memory), torch.tensor([far, far + 2]))
        return own(inputs.with_memory(score=keys), None)[0]

    torch.testing.assert_close(beside(torch.float32).double(), beside(torch.float64), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("num_heads", "exponents"),
    [
        (1, [8]),
        (2, [4, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (3, [4, 8, 2]),
        (6, [2, 4, 6, 8, 1, 3]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_slopes_are_those_of_the_paper_also_between_powers_of_two(num_heads, exponents):
    slopes = LinearBiasWindow(num_heads).slopes(torch.float64)
    torch.testing.assert_close(slopes, 2.0 ** -torch.tensor(exponents, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_bias_against_distance_is_finite_at_any_distance(dtype):
    mechanism = multi_head(query_size=4, memory_size=4, size=16, num_heads=16, positions="linear_bias").to(dtype)
    memory = mechanism.prepare(torch.randn(1, 3, 4, dtype=dtype))
    state = mechanism.initial_state(memory)
    far = type(state)(None, None, None, torch.tensor([5_000_000]))
    attended, _ = mechanism.step(torch.randn(1, 4, dtype=dtype), memory, far, alignment=True)
    assert attended.alignment.isfinite().all()
    torch.testing.assert_close(attended.alignment.double().sum(-1), torch.ones(1, 16), rtol=0, atol=1e-2)


@settings(max_examples=60)
@given(
    half=st.integers(1, 20),
    farther=st.integers(1, 300),
    bidirectional=st.booleans(),
    offsets=st.lists(st.integers(-2000, 2000), min_size=1, max_size=20),
)
def test_buckets_are_cut_where_the_logarithm_says(half, farther, bidirectional, offsets):
    num_buckets, max_distance = (4 * half if bidirectional else 2 * half), half + farther
    window = BucketBiasWindow(1, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional)
    expected = [bucket(offset, num_buckets, max_distance, bidirectional) for offset in offsets]
    assert window.buckets(torch.tensor(offsets)).tolist() == expected


def test_buckets_of_one_direction_do_not_tell_later_positions_apart():
    window = BucketBiasWindow(2, num_buckets=8, max_distance=20, bidirectional=False)
    assert window.buckets(torch.arange(-4, 4)).tolist() == [4, 3, 2, 1, 0, 0, 0, 0]
    assert BucketBiasWindow(2).buckets(torch.tensor([-1, 1])).tolist() == [1, 17]


def test_biases_that_have_learned_nothing_are_no_biases():
    biased, plain = (multi_head(query_size=6, memory_size=6, size=8, positions=p) for p in ("buckets", None))
    plain.load_state_dict({k: v for k, v in biased.state_dict().items() if k != "window.biases"})
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(biased(x, biased.prepare(x))[0].context, plain(x, plain.prepare(x))[0].context)


@pytest.mark.parametrize("kind", [LinearBiasWindow, BucketBiasWindow])
def test_heads_have_a_bias_each_or_one_together(kind):
    shared = moved(reading(ScaledDotScore(5, 6, 4, num_heads=2), kind(1)))
    memory = shared.prepare(torch.randn(1, 4, 6))
    support, _ = shared.window(StepInputs(torch.randn(1, 5), memory, torch.tensor([2])), None)
    assert support.log_prior.shape == (1, 1, 4)
    with pytest.raises(UnsupportedError, match=r"3 heads and the score has 2.*num_heads=2, or 1"):
        reading(ScaledDotScore(5, 6, 4, num_heads=2), kind(3))


@pytest.mark.parametrize("kind", [LinearBiasWindow, BucketBiasWindow])
@pytest.mark.parametrize("num_heads", [1, 2])
def test_a_bias_at_few_places_is_the_bias_at_all_places(kind, num_heads):
    window, memory = moved(kind(num_heads)), reading(ScaledDotScore(5, 6, 4, num_heads=2)).prepare(torch.randn(1, 9, 6))
    inputs = StepInputs(torch.randn(2, 5), memory, torch.tensor([3, 8]))
    whole = window(inputs, None)[0].log_prior
    for heads in (1, 2):
        places = torch.randint(0, 9, (2, heads, 4))
        few = window.at(places, inputs, None)[0].log_prior
        torch.testing.assert_close(few, torch.take_along_dim(whole, places, -1))


@pytest.mark.parametrize("bias", [None, LinearBiasWindow(4), BucketBiasWindow(4, num_buckets=8, max_distance=9)])
def test_rotary_keys_of_few_positions_are_those_of_all(bias):
    score = RotaryDotScore(6, 6, 8, num_heads=4, num_key_value_heads=2)
    read, sliding = ProjectedSum(6, 8, num_heads=4, num_key_value_heads=2), SlidingWindow(back=2, front=0)
    window = sliding if bias is None else Intersection([sliding, moved(bias)])
    few, all_ = (Mechanism(score, SoftmaxAlignment(), read, window, narrow=narrow) for narrow in (True, False))
    x = torch.randn(2, 20, 6)
    memory = few.prepare(x, lengths=torch.tensor([20, 11]))
    assert few.explain(memory).startswith("narrow")
    for ours, theirs in zip(_seen(few, x, memory), _seen(all_, x, memory), strict=True):
        torch.testing.assert_close(ours, theirs)


def _seen(mechanism, queries, memory):
    attended, _ = mechanism(queries, memory, alignment=True)
    return attended.context, attended.alignment


@pytest.mark.parametrize("score", [RelativeDotScore(5, 6, 4, num_heads=2), TransformerXLScore(5, 6, 4, num_heads=2)])
def test_scores_that_count_positions_see_all_of_them(score):
    with pytest.raises(UnsupportedError, match=f"{type(score).__name__} is not positionwise"):
        reading(score, SlidingWindow(back=1, front=0), narrow=True)


def test_one_vector_for_all_offsets_moves_the_context_and_no_weight():
    size = {"num_heads": 2, "max_distance": 0}
    relative = moved(Mechanism(RelativeDotScore(6, 6, 8, **size), SoftmaxAlignment(), RelativeSum(6, 8, **size)))
    plain = Mechanism(relative.score.content, SoftmaxAlignment(), relative.read.values)
    x = torch.randn(2, 5, 6)
    memory = relative.prepare(x)
    (ours, theirs), (weights, expected) = zip(_seen(relative, x, memory), _seen(plain, x, memory), strict=True)
    torch.testing.assert_close(weights, expected)
    shift = relative.read.values.output_projection(relative.read.offsets.vectors[0].repeat(2))
    torch.testing.assert_close(ours - theirs, shift.expand_as(ours))


def test_offsets_beyond_the_distance_share_a_vector():
    score = moved(RelativeDotScore(6, 6, 8, num_heads=2, max_distance=2))
    value = torch.randn(1, 6).expand(9, -1)
    found = energies(score, torch.randn(1, 6), value, first=4)[0]
    torch.testing.assert_close(found[:, :3], found[:, 2:3].expand(-1, 3))
    torch.testing.assert_close(found[:, 6:], found[:, 6:7].expand(-1, 3))
    assert len({round(e, 9) for e in found[0].tolist()}) == 5


def test_keys_and_values_may_share_their_vectors():
    score = RelativeDotScore(6, 6, 8, num_heads=2, max_distance=2)
    mechanism = Mechanism(score, SoftmaxAlignment(), RelativeSum(6, 8, num_heads=2, offsets=score.offsets))
    apart = Mechanism(
        RelativeDotScore(6, 6, 8, num_heads=2, max_distance=2),
        SoftmaxAlignment(),
        RelativeSum(6, 8, num_heads=2, max_distance=2),
    )
    assert sum(p.numel() for p in apart.parameters()) - sum(p.numel() for p in mechanism.parameters()) == 5 * 4
    with pytest.raises(ShapeError, match=r"have 4 features and the values of a head 6 \(size=12 / num_heads=2\)"):
        RelativeSum(6, 12, num_heads=2, offsets=score.offsets)


def test_transformer_xl_without_its_own_weights_is_the_scaled_dot_product():
    score = TransformerXLScore(5, 6, 8, num_heads=2)
    torch.nn.init.zeros_(score.offset_projection.weight)
    queries, values = torch.randn(3, 5), torch.randn(7, 6)
    torch.testing.assert_close(energies(score, queries, values), energies(score.content, queries, values))


def test_transformer_xl_tells_the_past_from_the_future():
    score = moved(TransformerXLScore(5, 6, 8, num_heads=2))
    around = energies(score, torch.randn(1, 5), torch.randn(1, 6).expand(9, -1), first=4)[0]
    assert not torch.isclose(around, around.flip(-1)).masked_fill(torch.arange(9) == 4, False).any()


def test_transformer_xl_is_the_shifted_matrix_of_its_authors():
    heads, width, steps = 2, 4, 30
    score = moved(TransformerXLScore(6, 6, heads * width, num_heads=heads))
    x = torch.randn(steps, 6)
    q, k = (p(x).view(steps, heads, width) for p in (score.content.query_projection, score.content.key_projection))
    angles = torch.arange(steps - 1, -1, -1)[:, None] / 10000 ** (torch.arange(0, 6, 2) / 6)
    r = score.offset_projection(torch.cat([angles.sin(), angles.cos()], -1)).view(steps, heads, width)
    content = torch.einsum("ihd,jhd->hij", q + score.content_bias, k)
    offset = torch.einsum("ihd,jhd->hij", q + score.offset_bias, r)
    padded = torch.cat([torch.zeros(heads, steps, 1), offset], 2)
    shifted = padded.view(heads, steps + 1, steps)[:, 1:].reshape(heads, steps, steps)
    expected = (content + shifted) / width**0.5
    past = torch.ones(steps, steps).tril().bool()
    torch.testing.assert_close(energies(score, x, x).transpose(0, 1)[:, past], expected[:, past])


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_heads_side_by_side_share_keys_and_values_as_in_torch(groups):
    mechanism = multi_head(query_size=6, memory_size=6, size=12, num_heads=6, num_key_value_heads=groups, causal=True)
    x = torch.randn(2, 7, 6)
    memory = mechanism.prepare(x)
    assert memory.score.shape == memory.read.shape == (2, 7, groups, 2)

    def heads(projected, number):
        return projected.unflatten(-1, (number, -1)).transpose(1, 2)

    expected = scaled_dot_product_attention(
        heads(mechanism.score.query_projection(x), 6),
        heads(mechanism.score.key_projection(x), groups),
        heads(mechanism.read.value_projection(x), groups),
        is_causal=True,
        enable_gqa=True,
    )
    expected = mechanism.read.output_projection(expected.transpose(1, 2).flatten(2))
    torch.testing.assert_close(mechanism(x, memory)[0].context, expected)


@pytest.mark.parametrize("positions", [None, *POSITIONS])
def test_a_causal_mechanism_sees_nothing_that_comes_later(positions):
    mechanism = moved(multi_head(query_size=6, memory_size=6, size=8, positions=positions, causal=True))
    x = torch.randn(2, 5, 6, requires_grad=True)
    context = mechanism(x, mechanism.prepare(x))[0].context
    for t in range(5):
        (gradient,) = torch.autograd.grad(context[:, t].sum(), x, retain_graph=True)
        assert not gradient[:, t + 1 :].any()


def test_a_window_is_beside_the_causal_one_and_the_bias():
    mechanism = multi_head(
        query_size=6,
        memory_size=6,
        size=8,
        positions="linear_bias",
        causal=True,
        window=SlidingWindow(back=1, front=1),
    )
    x = torch.randn(1, 5, 6)
    weights = mechanism(x, mechanism.prepare(x), alignment=True)[0].alignment
    assert (weights[0] != 0).int().unique(dim=0).squeeze(0).sum(-1).tolist() == [1, 2, 2, 2, 2]


def test_only_causal_buckets_have_one_direction():
    assert multi_head(query_size=6, memory_size=6, positions="buckets").window.bidirectional
    causal, buckets = multi_head(query_size=6, memory_size=6, positions="buckets", causal=True).window.windows
    assert isinstance(causal, CausalWindow)
    assert not buckets.bidirectional


@pytest.mark.parametrize(
    ("positions", "keys"),
    [
        ("rotary", ["su2021"]),
        ("linear_bias", ["press2022"]),
        ("buckets", ["raffel2020"]),
        ("relative", ["shaw2018"]),
        ("transformer_xl", ["dai2019"]),
        (None, ["ainslie2023"]),
    ],
)
def test_what_knows_of_positions_is_cited(positions, keys):
    groups = 2 if positions is None else None
    text = cite(multi_head(query_size=6, memory_size=6, positions=positions, num_key_value_heads=groups))
    assert [key for key in (*keys, "vaswani2017") if f"{{{key}," not in text] == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ScaledDotScore(5, 6, 8, num_heads=4, num_key_value_heads=3), "num_heads=4 .* num_key_value_heads=3"),
        (lambda: ProjectedSum(6, 8, num_heads=4, num_key_value_heads=0), "num_heads=4 .* num_key_value_heads=0"),
        (lambda: RotaryDotScore(5, 6, 6, num_heads=2), r"rotary_size=3 must be even and at most 3.*size=6 / num_heads"),
        (lambda: RotaryDotScore(5, 6, 8, num_heads=2, rotary_size=6), "rotary_size=6 must be even and at most 4"),
        (lambda: RotaryDotScore(5, 6, 8, layout="quarter"), "'quarter'"),
        (lambda: TransformerXLScore(5, 6, 8, position_size=5), "position_size=5 must be even"),
        (
            lambda: reading(ScaledDotScore(5, 6, 8, num_heads=2), read=RelativeSum(6, 8, num_heads=4)),
            "joins 4 heads and the score has 2",
        ),
        (lambda: RelativeDotScore(5, 6, 8, max_distance=-1), "max_distance=-1 must be 0 or more"),
        (lambda: LinearBiasWindow(0), "num_heads=0 must be 1 or more"),
        (lambda: BucketBiasWindow(1, num_buckets=7), r"num_buckets=7 must be an even number from 4 \(bidir.*True"),
        (lambda: BucketBiasWindow(1, num_buckets=1, bidirectional=False), "num_buckets=1 must be 2 or more"),
        (lambda: BucketBiasWindow(1, max_distance=8), "max_distance=8 must be above 8"),
        (
            lambda: multi_head(query_size=5, memory_size=6, positions="alibi"),
            "positions='alibi' must be one of rotary,",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_numbers_given(call, message):
    with pytest.raises((RegardError, TypeCheckError), match=message):
        call()
