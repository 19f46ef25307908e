"""Scores that remember where attention was: location, coverage, dynamic convolution, mixtures."""

from __future__ import annotations

import jaxtyping
import pytest
import torch

from regard.attention import (
    AdditiveScore,
    DynamicConvolutionScore,
    ExponentialAlignment,
    ForwardPriorWindow,
    LocationScore,
    Mechanism,
    MixtureScore,
    SoftmaxAlignment,
    WeightedSum,
    bahdanau,
    coverage,
    dynamic_convolution,
    gmm,
    location_sensitive,
)
from regard.attention.memory import first_alignment
from regard.attention.windows.prior import beta_binomial
from regard.errors import UnsupportedError
from regard.interop.coqui import SigmoidMixtureScore, UnmaskedAlignment

SIZES = {"query_size": 5, "memory_size": 6}
LOCATION = {**SIZES, "size": 4, "num_filters": 2, "kernel_size": 3}
LENGTHS = torch.tensor([7, 4])


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


def prepared(mechanism, lengths=LENGTHS, width=7):
    return mechanism.double().prepare(torch.randn(2, width, 6, dtype=torch.float64), lengths=lengths)


def prepared_state(mechanism):
    return mechanism.initial_state(prepared(mechanism))


def queries(steps):
    return torch.randn(2, steps, 5, dtype=torch.float64)


def run(mechanism, asked, memory):
    """The weights (B, T, S) of one head, and the state."""
    attended, state = mechanism(asked, memory, alignment=True)
    return attended.alignment[:, 0], state


def test_a_uniform_start_is_uniform_over_the_source_and_nothing_for_a_source_without_positions():
    memory = prepared(bahdanau(**SIZES, size=4), torch.tensor([4, 0]))
    start = first_alignment("uniform", memory, 4, 2)
    assert start[0, 0].tolist() == [0.25] * 4 + [0.0] * 3
    assert not start[2:].any()
    assert first_alignment("first", memory, 2, 1)[:, 0, 0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("stays", [False, True])
def test_a_uniform_start_is_in_the_sum_only_if_it_is_accumulated(stays):
    mechanism = location_sensitive(**LOCATION, first_alignment="uniform", accumulate_first=stays)
    memory = prepared(mechanism)
    weights, state = run(mechanism, queries(2), memory)
    start = first_alignment("uniform", memory, 2, 1)[:, 0]
    torch.testing.assert_close(state.score.cumulative[:, 0], weights.sum(1) + (start if stays else 0))


def test_the_last_alignments_are_channels_oldest_first():
    mechanism = location_sensitive(**LOCATION, location="previous", num_previous=3)
    weights, state = run(mechanism, queries(2), prepared(mechanism))
    recent = state.score.recent[:, 0]
    assert not recent[:, 0].any()
    torch.testing.assert_close(recent[:, 1:], weights)


def test_a_detached_location_gives_no_gradient_to_the_step_before():
    gradients = []
    for like in ("speechbrain", None):
        mechanism = location_sensitive(**LOCATION, location="previous", first_alignment="uniform", like=like)
        memory, asked = prepared(mechanism), queries(2).requires_grad_()
        mechanism(asked, memory)[0].context[:, 1].sum().backward()
        gradients.append(asked.grad[:, 0].abs().max())
    assert gradients[0] == 0
    assert gradients[1] > 0


def test_the_bias_of_v_is_there_where_smoothing_sees_it():
    assert location_sensitive(**LOCATION, like="coqui").alignment.bias is not None
    assert not hasattr(location_sensitive(**LOCATION, like="coqui", alignment="softmax").alignment, "bias")
    assert location_sensitive(**LOCATION, alignment="sigmoid", output_bias=True).alignment.bias is not None


def test_coverage_that_counts_nothing_is_additive_attention():
    mechanism = coverage(**SIZES, size=4)
    plain = Mechanism(AdditiveScore(5, 6, 4, bias=True), SoftmaxAlignment(), WeightedSum(6)).double()
    memory, asked = prepared(mechanism), queries(3)
    plain.score.load_state_dict(mechanism.score.content.state_dict())
    expected = plain(asked, plain.prepare(memory.read[:, :, 0], lengths=LENGTHS))[0].context
    torch.testing.assert_close(mechanism(asked[:, :1], memory)[0].context, expected[:, :1])
    torch.nn.init.zeros_(mechanism.score.coverage_projection)
    torch.testing.assert_close(mechanism(asked, memory)[0].context, expected)


def test_coverage_is_location_with_one_filter_that_looks_at_one_position():
    covered = coverage(**SIZES, size=4, like="espnet")
    located = location_sensitive(
        **{**LOCATION, "num_filters": 1, "kernel_size": 1},
        first_alignment="uniform",
        accumulate_first=True,
        sharpening=2.0,
    )
    memory, asked = prepared(covered), queries(4)
    located.double().score.content.load_state_dict(covered.score.content.state_dict())
    torch.nn.init.ones_(located.score.filters.weight)
    located.score.location_projection.data.copy_(covered.score.coverage_projection[:, None])
    torch.testing.assert_close(run(located, asked, memory)[0], run(covered, asked, memory)[0])


@pytest.mark.parametrize(("num_trials", "alpha", "beta"), [(10, 0.1, 0.9), (0, 0.5, 2.0), (20, 3.0, 1.5)])
def test_the_beta_binomial_is_that_of_scipy(num_trials, alpha, beta):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.betabinom.pmf(range(num_trials + 1), num_trials, alpha, beta).tolist()
    assert beta_binomial(num_trials, alpha, beta) == pytest.approx(expected, rel=1e-12)


def test_the_prior_of_the_paper_moves_one_position_a_step():
    assert sum(k * p for k, p in enumerate(beta_binomial(10, 0.1, 0.9))) == pytest.approx(1.0)


def test_without_evidence_dynamic_convolution_moves_as_the_prior_says():
    mechanism = dynamic_convolution(**SIZES, size=4)
    torch.nn.init.zeros_(mechanism.score.v)
    memory = prepared(mechanism, torch.tensor([60, 60]), 60)
    weights, _ = run(mechanism, queries(1), memory)
    expected = torch.tensor([max(p, 1e-6) for p in beta_binomial(10, 0.1, 0.9)] + [1e-6] * 49, dtype=torch.float64)
    torch.testing.assert_close(weights[0, 0], expected / expected.sum())


def test_content_means_nothing_to_dynamic_convolution():
    mechanism = dynamic_convolution(**SIZES, size=4)
    asked = queries(3)
    one, other = prepared(mechanism), prepared(mechanism)
    torch.testing.assert_close(run(mechanism, asked, one)[0], run(mechanism, asked, other)[0], rtol=0, atol=0)


@pytest.mark.parametrize("version", ["V0", "V1", "V2"])
def test_a_mixture_begins_with_the_step_and_the_width_that_are_told(version):
    score = MixtureScore(5, 4, num_components=1, version=version, initial_step=1.5, initial_width=4.0)
    torch.nn.init.zeros_(score.parameters_of_mixture.weight)
    mechanism = Mechanism(score, ExponentialAlignment(), WeightedSum(6))
    weights, state = run(mechanism, queries(2), prepared(mechanism, torch.tensor([40, 40]), 40))
    assert state.score.flatten().tolist() == pytest.approx([3.0, 3.0])
    height = 1.0 if version == "V0" else 1 / (4 * (2 * torch.pi) ** 0.5)
    assert weights[0, 1, 3].item() == pytest.approx(height, rel=1e-4)
    assert weights[0, 1, 7].item() == pytest.approx(height * 2.718281828**-0.5, rel=1e-4)


def test_the_recipe_of_mixtures_tells_how_they_begin():
    mechanism = gmm(**SIZES, num_components=1, initial_step=0.4, initial_width=2.0)
    torch.nn.init.zeros_(mechanism.score.parameters_of_mixture.weight)
    weights, state = run(mechanism, queries(5), prepared(mechanism, torch.tensor([40, 40]), 40))
    assert state.score.flatten().tolist() == pytest.approx([2.0, 2.0])
    assert weights[0, 4, 2].item() == pytest.approx(1 / (2 * (2 * torch.pi) ** 0.5), rel=1e-4)
    with pytest.raises(UnsupportedError, match="no effect on version='V2'"):
        gmm(**SIZES, version="V2", initial_step=0.4)
    with pytest.raises(ValueError, match=r"initial_width=0\.0 must be positive"):
        gmm(**SIZES, initial_width=0.0)


def test_a_logistic_mixture_loses_nothing_between_positions():
    mechanism = gmm(**SIZES, family="logistic", version="V2")
    memory = prepared(mechanism, torch.tensor([400, 400]), 400)
    weights, state = run(mechanism, queries(60), memory)
    assert state.score.min() > 20
    torch.testing.assert_close(weights[:, -1].sum(-1), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-9)


def one_bell(score, mean, width):
    """A score of one component that is at `mean`, `width` wide, in its first step."""
    torch.nn.init.zeros_(score.parameters_of_mixture.weight)
    raw = torch.tensor([mean, width]).expm1().log()
    order = (2, 1) if isinstance(score, SigmoidMixtureScore) else (1, 2)
    for place, value in zip(order, raw, strict=True):
        score.parameters_of_mixture.bias.data[place] = value
    return Mechanism(score, ExponentialAlignment(), WeightedSum(6))


def test_the_sigmoid_in_place_of_an_exponential_halves_the_mass_and_peaks_too_far_on():
    asked = queries(1)
    found = {}
    for score in (SigmoidMixtureScore(5, num_components=1), MixtureScore(5, 4, num_components=1, family="logistic")):
        mechanism = one_bell(score, 5.0, 10.0).eval()
        memory = prepared(mechanism, torch.tensor([50, 50]), 50)
        found[type(score)] = run(mechanism, asked, memory)[0][0, 0]
    coqui, right = found[SigmoidMixtureScore], found[MixtureScore]
    assert right.argmax() == 5
    assert coqui.argmax() > 8
    assert coqui.sum() < 0.5 < right.sum()


def test_a_mixture_of_half_precision_remembers_where_it_is_in_float32():
    mechanism = gmm(**SIZES, size=4).to(torch.bfloat16)
    memory = mechanism.prepare(torch.randn(1, 300, 6).bfloat16())
    state = mechanism.initial_state(memory)
    assert state.score.dtype == torch.float32
    _, state = mechanism.step(torch.randn(1, 5).bfloat16(), memory, state)
    assert state.score.dtype == torch.float32


def test_coqui_gives_padding_a_weight_and_lets_it_take_part_in_a_softmax():
    mechanism = dynamic_convolution(**SIZES, size=4, like="coqui")
    memory, asked = prepared(mechanism), queries(2)
    weights, _ = run(mechanism, asked, memory)
    assert (weights[1, :, 4:] == 1e-8).all()
    assert (weights[1].sum(-1) < 1).all()
    assert mechanism.is_normalised is False
    plain = dynamic_convolution(**SIZES, size=4).double()
    plain.load_state_dict(mechanism.state_dict())
    torch.testing.assert_close(run(plain, asked, memory)[0][0], weights[0])


def test_coquis_mixture_drops_logits_in_training_alone():
    mechanism = gmm(**SIZES, num_components=4, like="coqui")
    memory, asked = prepared(mechanism), queries(1)
    assert not torch.equal(run(mechanism, asked, memory)[0], run(mechanism, asked, memory)[0])
    mechanism.eval()
    assert torch.equal(run(mechanism, asked, memory)[0], run(mechanism, asked, memory)[0])


@pytest.mark.parametrize(
    ("error", "make", "message"),
    [
        (ValueError, lambda: LocationScore(5, 6, 4, kernel_size=4), "kernel_size=4 must be odd"),
        (ValueError, lambda: LocationScore(5, 6, 4, num_previous=2), "num_previous=2 with location='cumulative'"),
        (ValueError, lambda: LocationScore(5, 6, 4, location="both", num_previous=0), "num_previous=0"),
        (ValueError, lambda: LocationScore(5, 6, 4, location="before"), "location='before' must be one of previous, "),
        (ValueError, lambda: LocationScore(5, 6, 4, location="previous", accumulate_first=True), "there is no sum"),
        (
            ValueError,
            lambda: prepared_state(location_sensitive(**LOCATION, first_alignment="last")),
            "first_alignment='last' must be one of zeros, uniform, first",
        ),
        (ValueError, lambda: MixtureScore(5, 4, version="V3"), "version='V3' must be one of V0, V1, V2"),
        (UnsupportedError, lambda: coverage(**SIZES, like="see"), "like='see' must be 'espnet'"),
        (UnsupportedError, lambda: dynamic_convolution(**SIZES, like="bshall"), "like='bshall' must be 'coqui'"),
        (UnsupportedError, lambda: gmm(**SIZES, like="espnet"), "like='espnet' must be 'coqui'"),
        (ValueError, lambda: DynamicConvolutionScore(5, 4, dynamic_kernel=2), "dynamic_kernel=2 must be odd"),
        (ValueError, lambda: ForwardPriorWindow(alpha=0.0), "alpha=0.0"),
        (ValueError, lambda: MixtureScore(5, 4, family="logistic", version="V0"), "use 'V1' or 'V2'"),
        (
            UnsupportedError,
            lambda: location_sensitive(**LOCATION, like="coquette"),
            "must be 'coqui' or 'espnet' or",
        ),
        (UnsupportedError, lambda: location_sensitive(**LOCATION, output_bias=True), "does not depend on a bias of v"),
        (
            UnsupportedError,
            lambda: gmm(**SIZES, like="coqui", version="V1"),
            "version='V1': like='coqui' has no such option; leave it out.",
        ),
        (
            UnsupportedError,
            lambda: Mechanism(
                AdditiveScore(5, 6, 4, num_heads=2),
                SoftmaxAlignment(),
                WeightedSum(6, num_heads=2),
                ForwardPriorWindow(),
            ),
            "give it num_heads=2",
        ),
        (
            UnsupportedError,
            lambda: Mechanism(AdditiveScore(5, 6, 4), UnmaskedAlignment(ExponentialAlignment()), WeightedSum(6)),
            "has no bound",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(error, make, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as outside tests, where types are not checked
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


def test_the_probabilities_of_moves_are_exact_whatever_types_a_model_was_moved_through():
    window = ForwardPriorWindow()
    expected = window.moves.clone()
    for moved in (window.bfloat16().float(), window.to_empty(device="cpu")):
        assert torch.equal(moved.moves, expected)
    assert window.bfloat16().moves.dtype == torch.float32
    assert torch.equal(window.double().moves.float(), expected)
