from __future__ import annotations

import itertools
import math
from typing import get_args

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import attention as a
from regard import ops
from regard.attention.alignments.normalisers import AlignmentName
from regard.errors import UnsupportedError
from regard.ops.entmax import bisect, sort
from support.oracles.alignments import entmax

energies_and_support = st.lists(st.tuples(st.floats(-1e4, 1e4), st.booleans()), min_size=1, max_size=7)


def project(energies):
    """The nearest point of the simplex, of those that keep some positions and move them all alike."""
    best = None
    for kept in itertools.product([False, True], repeat=len(energies)):
        if not any(kept):
            continue
        shift = (sum(e for e, k in zip(energies, kept) if k) - 1) / sum(kept)
        point = [e - shift if k else 0.0 for e, k in zip(energies, kept)]
        if min(point) < 0:
            continue
        distance = math.fsum((e - x) ** 2 for e, x in zip(energies, point))
        if best is None or distance < best[0]:
            best = (distance, point)
    return best[1]


def test_sparsemax_is_the_projection_found_by_trying_every_support():
    for energies in torch.randn(20, 6, dtype=torch.float64):
        torch.testing.assert_close(ops.sparsemax(energies).tolist(), project(energies.tolist()), rtol=0, atol=1e-12)


@settings(max_examples=60)
@given(energies_and_support, st.sampled_from([1.05, 1.5, 1.7, 2.0, 3.0]), st.sampled_from([1e-4, 1.0]))
def test_entmax_is_its_equation_for_any_energies_and_any_mask(drawn, alpha, scale):
    energies, support = [e * scale for e, _ in drawn], [inside for _, inside in drawn]
    given_energies = torch.tensor([energies], dtype=torch.float64, requires_grad=True)
    weights = ops.entmax(given_energies, torch.tensor([support]), alpha)
    torch.testing.assert_close(weights[0].tolist(), entmax(energies, support, alpha), rtol=0, atol=1e-8)
    assert all(w == 0.0 for w, inside in zip(weights[0].tolist(), support) if not inside)
    (gradient,) = torch.autograd.grad((weights * torch.arange(len(energies))).sum(), given_energies)
    assert torch.isfinite(gradient).all()
    assert any(support) or not gradient.any()


@pytest.mark.parametrize("alpha", [1.5, 2.0])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_sorting_and_bisection_give_the_same_weights_and_gradients(alpha, scale):
    energies = (torch.randn(30, 40, dtype=torch.float64) * scale).requires_grad_()
    support = torch.rand(30, 40) > 0.3
    probe = torch.randn(30, 40, dtype=torch.float64)
    found = [function(energies, support, alpha) for function in (sort, bisect)]
    torch.testing.assert_close(*found, rtol=0, atol=1e-13)
    torch.testing.assert_close(*(torch.autograd.grad((w * probe).sum(), energies) for w in found), rtol=0, atol=1e-12)


def test_entmax_is_softmax_at_1_and_sparsemax_at_2():
    energies, support = torch.randn(5, 6, dtype=torch.float64), torch.rand(5, 6) > 0.3
    for number in (lambda x: x, lambda x: torch.tensor([[x]], dtype=torch.float64)):
        torch.testing.assert_close(ops.entmax(energies, support, number(1.0)), ops.masked_softmax(energies, support))
        torch.testing.assert_close(ops.entmax(energies, support, number(2.0)), ops.sparsemax(energies, support))


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
def test_entmax_can_be_differentiated_twice(alpha):
    energies, support = torch.randn(3, 5, dtype=torch.float64, requires_grad=True), torch.rand(3, 5) > 0.2
    assert torch.autograd.gradgradcheck(lambda e: ops.entmax(e, support, alpha), (energies,))
    if alpha == 1.3:
        each = torch.tensor([[1.3], [1.1], [1.9]], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradgradcheck(lambda e, alpha: ops.entmax(e, support, alpha), (energies, each))


@pytest.mark.parametrize("step", [1e-5, 1e-3, 0.05])
def test_the_gradient_of_alpha_stays_exact_near_1(step):
    energies, probe = torch.randn(4, 6, dtype=torch.float64) * 2, torch.arange(6.0)
    alpha = torch.full((1, 1), 1 + step, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad((ops.entmax(energies, None, alpha) * probe).sum(), alpha)
    moved = [ops.entmax(energies, None, alpha.detach() + sign * step / 10) for sign in (1, -1)]
    difference = ((moved[0] - moved[1]) * probe).sum() / (step / 5)
    assert gradient.item() == pytest.approx(difference.item(), rel=1e-3)
    single = alpha.detach().float().requires_grad_()
    (rounded,) = torch.autograd.grad((ops.entmax(energies.float(), None, single) * probe).sum(), single)
    assert rounded.item() == pytest.approx(gradient.item(), rel=1e-3)


@pytest.mark.parametrize("function", [ops.sparsemax, ops.entmax, lambda *x: ops.entmax(*x, 1.2)])
@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_row_with_a_nan_or_an_infinity_becomes_nan_and_no_other(function, odd):
    weights = function(torch.tensor([[1.0, odd, 0.0], [3.0, 0.0, 0.0]]), None)
    assert weights[0].isnan().any()
    assert weights[1].isfinite().all()


@pytest.mark.parametrize("function", [ops.sparsemax, ops.hardmax, ops.entmax, lambda *x: ops.entmax(*x, 1.2)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_largest_numbers_of_a_type_are_legal_energies(function, dtype):
    largest = torch.finfo(dtype).max
    energies = torch.tensor([[largest, -largest, 0.0], [-largest, largest, largest], [largest] * 3], dtype=dtype)
    support = torch.tensor([[True, True, False], [True, False, False], [False] * 3])
    expected = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0] * 3], dtype=dtype)
    assert torch.equal(function(energies, support), expected)


def test_which_way_entmax_is_computed_is_explained():
    energies = torch.zeros(2, 3)
    assert "sorting: taken" in ops.explain("entmax", energies)
    assert "sorting: refused: alpha=1.3" in ops.explain("entmax", energies, None, 1.3)
    assert "reference: taken" in ops.explain("entmax", energies, None, torch.ones(1, 1))
    with pytest.raises(ValueError, match=r"alpha=0\.5 must be 1 \(softmax\) or more"):
        ops.entmax(energies, None, 0.5)


def weigh(alignment, energies, support=None, generator=None):
    """Weights and auxiliary of energies (R, H, S)."""
    rows = len(energies)
    memory = a.Memory(read=torch.zeros(rows, energies.shape[-1], 1, 1))
    inputs = a.StepInputs(torch.zeros(rows, 1), memory, torch.zeros(rows, dtype=torch.long), generator=generator)
    weights, state, auxiliary = alignment(energies, support, inputs, None)
    assert state is None
    return weights, auxiliary


def test_the_first_of_equal_energies_is_taken():
    energies = torch.tensor([[[1.0, 2.0, 2.0], [0.0, 0.0, 0.0]]])
    for alignment in (a.HardmaxAlignment(), a.StochasticAlignment().eval()):
        assert weigh(alignment, energies)[0].tolist() == [[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]]


def test_straight_through_reads_one_position_and_learns_like_softmax():
    energies, probe = torch.randn(2, 3, 5, requires_grad=True), torch.randn(2, 3, 5)
    support = torch.tensor([[[1, 1, 1, 0, 1]], [[0, 0, 0, 0, 0]]]).bool()
    weights, _ = weigh(a.HardmaxAlignment(straight_through=True), energies, support)
    assert torch.equal(weights, weigh(a.HardmaxAlignment(), energies, support)[0])
    (gradient,) = torch.autograd.grad((weights * probe).sum(), energies)
    soft = (ops.masked_softmax(energies, support) * probe).sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(soft, energies)[0])


def test_smoothing_of_energies_far_below_zero_is_still_a_distribution():
    energies = torch.tensor([[[-1000.0, -1001.0, 5.0], [2.0, 2000.0, 1000.0]]], requires_grad=True)
    support = torch.tensor([[[True, True, False]]])
    weights, _ = weigh(a.SigmoidAlignment(normalised=True), energies, support)
    expected = torch.tensor([[[0.7311, 0.2689, 0.0], [0.4683, 0.5317, 0.0]]])
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-4)
    assert torch.isfinite(torch.autograd.grad(weights.square().sum(), energies)[0]).all()


def test_plain_sigmoids_are_independent_and_their_bias_is_learned():
    alignment = a.SigmoidAlignment(bias=-1.0)
    weights, _ = weigh(alignment, torch.zeros(1, 1, 3))
    torch.testing.assert_close(weights, torch.full((1, 1, 3), 1 / (1 + math.e)))
    assert [name for name, _ in alignment.named_parameters()] == ["bias"]
    assert not alignment.is_normalised
    assert list(a.SigmoidAlignment().parameters()) == []


def test_a_learned_alpha_starts_where_it_is_told_for_every_head():
    mechanism = a.multi_head(query_size=4, memory_size=4, size=6, num_heads=3, alignment="entmax")
    torch.testing.assert_close(mechanism.alignment.alpha, torch.full((3, 1), 1.5))
    torch.testing.assert_close(a.EntmaxAlignment(1.2, learned=True).alpha, torch.tensor([[1.2]]))
    attended, _ = mechanism(torch.randn(2, 3, 4), mechanism.prepare(torch.randn(2, 5, 4)))
    attended.context.square().sum().backward()
    assert (mechanism.alignment.alpha_logits.grad != 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: a.EntmaxAlignment(0.9), "alpha=0.9 must be 1 (softmax) or more"),
        (lambda: a.EntmaxAlignment(2.0, learned=True), "alpha=2.0 must be between 1 and 2"),
        (lambda: a.SparsemaxAlignment(sharpening=0.0), "sharpening=0.0 must be above 0"),
        (lambda: a.StochasticAlignment(temperature=0.0), "temperature=0.0 must be above 0"),
        (lambda: a.StochasticAlignment(mix=1.5), "mix=1.5 is a probability"),
        (lambda: a.StochasticAlignment(evaluation="mean"), "evaluation='mean' must be 'argmax' or 'expectation'"),
        (lambda: a.GatedSum(4, 4, gate="matrix"), "gate='matrix' must be 'scalar' or 'vector'"),
        (lambda: a.show_attend_tell(query_size=4, memory_size=4, mix=0.5), "mix=0.5 is an option of hard attention"),
        (lambda: a.show_attend_tell(query_size=4, memory_size=4, like="keras"), "like='keras' must be 'sgrvinod'"),
        (lambda: a.alignment_named("argmax"), "alignment='argmax' must be one of softmax, sparsemax, "),
        (lambda: a.bahdanau(query_size=4, memory_size=4, alignment="hardmax", sharpening=2.0), "sharpening=2.0 does"),
        (
            lambda: a.Mechanism(
                a.DotScore(4, 4, num_heads=2), a.EntmaxAlignment(learned=True), a.WeightedSum(4, num_heads=2)
            ),
            "learns an alpha for 1 heads and the score has 2: give it num_heads=2",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_what_was_given(call, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as outside tests, where types are not checked
    with pytest.raises(ValueError) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize("recipe", [a.bahdanau, a.luong, a.location_sensitive, a.multi_head])
@pytest.mark.parametrize("name", get_args(AlignmentName))
def test_recipes_take_any_alignment_by_its_name(recipe, name):
    kinds = {
        "softmax": a.SoftmaxAlignment,
        "sparsemax": a.SparsemaxAlignment,
        "entmax15": a.EntmaxAlignment,
        "entmax": a.EntmaxAlignment,
        "hardmax": a.HardmaxAlignment,
        "sigmoid": a.SigmoidAlignment,
        "smoothed_sigmoid": a.SigmoidAlignment,
    }
    mechanism = recipe(query_size=4, memory_size=4, num_heads=2, alignment=name)
    assert type(mechanism.alignment) is kinds[name]
    assert mechanism.is_normalised == (name != "sigmoid")
    queries, values = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    mechanism(queries, mechanism.prepare(values))[0].context.square().sum().backward()
    asking = next(p for n, p in mechanism.score.named_parameters() if "v" not in n.split("."))
    assert (asking.grad != 0).any(), "the score learns"


ENERGIES = torch.tensor([[[0.0, 1.0, -1.0, 3.0]]])
SUPPORT = torch.tensor([[[True, True, True, False]]])


def test_hard_attention_draws_as_often_as_softmax_says_and_never_outside_the_support():
    many = 20_000
    alignment = a.StochasticAlignment(temperature=2.0)
    draw = torch.Generator().manual_seed(0)
    weights, choice = weigh(alignment, ENERGIES.expand(many, 2, -1), SUPPORT.expand(many, 1, -1), draw)
    expected = ops.masked_softmax(ENERGIES / 2, SUPPORT)[0, 0]
    torch.testing.assert_close(weights.mean((0, 1)), expected, rtol=0, atol=0.01)
    assert (weights.sum(-1) == 1).all()
    assert (weights.max(-1).values == 1).all()
    assert not weights[..., 3].any()
    assert torch.equal(choice.index, weights.argmax(-1))
    torch.testing.assert_close(choice.log_probability, expected.log()[choice.index])
    entropy = -(expected[:3] * expected[:3].log()).sum()
    torch.testing.assert_close(choice.entropy, entropy.expand(many, 2))
    together = weights[:, 0].argmax(-1) == weights[:, 1].argmax(-1)
    assert together.float().mean() < 0.5, "heads draw by themselves"


def test_draws_come_from_the_generator_and_do_not_depend_on_padding():
    alignment = a.StochasticAlignment(mix=0.3)
    energies = torch.randn(200, 2, 6)
    padded = torch.cat([energies, torch.full((200, 2, 50), 9.0)], -1)
    first, again = (weigh(alignment, energies, None, torch.Generator().manual_seed(4))[0] for _ in range(2))
    longer, _ = weigh(
        alignment, padded, torch.arange(56) < torch.full((200, 1, 1), 6), torch.Generator().manual_seed(4)
    )
    other, _ = weigh(alignment, energies, None, torch.Generator().manual_seed(5))
    assert torch.equal(first, again)
    torch.testing.assert_close(longer[..., :6], first)
    assert not longer[..., 6:].any()
    assert not torch.equal(first, other)


def test_what_was_drawn_is_a_constant_and_its_log_probability_is_not():
    energies = torch.randn(50, 2, 4, requires_grad=True)
    weights, choice = weigh(a.StochasticAlignment(), energies)
    assert not torch.autograd.grad(weights.square().sum(), energies, retain_graph=True, allow_unused=True)[0].any()
    (gradient,) = torch.autograd.grad(choice.log_probability.sum(), energies)
    torch.testing.assert_close(gradient, weights - energies.softmax(-1))


def test_with_mix_some_rows_get_the_expectation_and_learn_as_usual():
    energies = torch.randn(4000, 2, 4, requires_grad=True)
    weights, choice = weigh(a.StochasticAlignment(mix=0.25), energies, None, torch.Generator().manual_seed(0))
    soft = choice.index == -1
    assert torch.equal(soft[:, 0], soft[:, 1]), "one coin a row"
    assert soft[:, 0].float().mean() == pytest.approx(0.25, abs=0.03)
    torch.testing.assert_close(weights[soft], energies.softmax(-1)[soft])
    assert not choice.log_probability[soft].any()
    assert (choice.log_probability[~soft] < 0).all()
    (gradient,) = torch.autograd.grad((weights * torch.arange(4)).sum(), energies)
    assert torch.equal(gradient.abs().sum(-1) > 0, soft)


@pytest.mark.parametrize("training", [True, False])
def test_hard_attention_without_any_position_chooses_none(training):
    alignment = a.StochasticAlignment(mix=0.5).train(training)
    energies = torch.randn(6, 2, 3, requires_grad=True)
    weights, choice = weigh(alignment, energies, torch.zeros(6, 1, 3, dtype=torch.bool))
    assert not weights.any()
    assert (choice.index == -1).all()
    assert not choice.log_probability.any()
    assert not choice.entropy.any()
    (gradient,) = torch.autograd.grad((choice.log_probability + choice.entropy + weights.sum(-1)).sum(), energies)
    assert not gradient.any()
    weights, choice = weigh(alignment, torch.zeros(6, 2, 0))
    assert weights.shape == (6, 2, 0)
    assert (choice.index == -1).all()


def test_evaluation_reads_the_most_probable_position_or_the_expectation():
    energies = torch.randn(5, 2, 4)
    hard, choice = weigh(a.StochasticAlignment(mix=0.5).eval(), energies)
    assert torch.equal(hard, ops.hardmax(energies))
    assert torch.equal(choice.index, energies.argmax(-1))
    soft, choice = weigh(a.StochasticAlignment(evaluation="expectation").eval(), energies)
    torch.testing.assert_close(soft, energies.softmax(-1))
    assert (choice.index == -1).all()


@pytest.mark.parametrize("score", [a.AdditiveScore(4, 4, 4, num_heads=2), a.LocationScore(4, 4, 4, num_heads=2)])
def test_choices_of_a_sequence_are_stacked_along_its_steps(score):
    mechanism = a.Mechanism(score, a.StochasticAlignment(), a.WeightedSum(4, num_heads=2))
    attended, _ = mechanism(torch.randn(3, 5, 4), mechanism.prepare(torch.randn(3, 6, 4)), alignment=True)
    assert attended.auxiliary.index.shape == (3, 5, 2)
    assert torch.equal(attended.alignment.argmax(-1).transpose(1, 2), attended.auxiliary.index)
    assert mechanism.is_random
    assert mechanism.trains_differently


@pytest.mark.parametrize(("gate", "count"), [("scalar", 2), ("vector", 8)])
def test_a_gate_multiplies_what_every_head_reads(gate, count):
    read, plain = a.GatedSum(3, 4, gate=gate, num_heads=2), a.WeightedSum(4, num_heads=2)
    memory = a.Memory(read=plain.prepare(a.Source(torch.randn(2, 5, 4), torch.randn(2, 5, 4))))
    weights, query = torch.rand(2, 2, 5), torch.randn(2, 3)
    inputs = a.StepInputs(query, memory, torch.zeros(2, dtype=torch.long))
    ungated = plain(weights, inputs)
    opened = (read.gate.weight @ query.T + read.gate.bias[:, None]).T.sigmoid()
    assert opened.shape == (2, count)
    expected = ungated * opened.repeat_interleave(8 // count, 1)
    torch.testing.assert_close(read(weights, inputs), expected)


def test_a_gate_asks_for_a_query_even_where_the_score_does_not():
    mechanism = a.Mechanism(a.PoolingScore(4, 4), a.SoftmaxAlignment(), a.GatedSum(3, 4))
    assert mechanism.uses_query
    with pytest.raises(UnsupportedError, match="GatedSum"):
        mechanism.pool(mechanism.prepare(torch.randn(2, 5, 4)))


def test_show_attend_tell_cites_what_it_is_made_of():
    found = a.citation.sources(a.show_attend_tell(query_size=4, memory_size=4, size=4))
    assert found == ("bahdanau2015", "xu2015")
    sparse = a.multi_head(query_size=4, memory_size=4, size=4, alignment="entmax")
    assert {"peters2019", "correia2019"} <= set(a.citation.sources(sparse))
