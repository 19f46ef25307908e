"""The loss of an output layer in blocks is the plain formula's, gradients included, whatever the numbers."""

from __future__ import annotations

import copy
import inspect
import math
import sys

import pytest
import torch
from torch import nn

from regard import losses, ops
from regard.errors import ShapeError
from regard.layers import TokenEmbedding, TokenHead
from regard.ops.linear_cross_entropy import reference

INF, NAN = math.inf, math.nan
BLOCKS = ops.IMPLEMENTATIONS["linear_cross_entropy"][0]
here = pytest.mark.skipif(BLOCKS.unsupported_reason() is not None, reason=str(BLOCKS.unsupported_reason()))


def drawn(rows=67, size=5, tokens=33, *, scale=1.0):
    """Features, weight, bias, targets, a mask, and what is never said and no real row's target."""
    weight = torch.randn(tokens, size, dtype=torch.float64)
    features, bias = scale * torch.randn(rows, size, dtype=torch.float64), torch.randn(tokens, dtype=torch.float64)
    mask = torch.rand(rows) > 0.3
    targets = torch.randint(2, tokens, (rows,)).masked_fill(~mask, -100)
    return [features, weight, bias, targets, mask, torch.arange(tokens) < 2]


def run(function, inputs, dtype=torch.float64, *, factor=1.0, **options):
    """Loss, likelihood, and the gradients of a multiple of the loss by features, weight and bias."""
    learned = [x if x is None else x.detach().to(dtype).requires_grad_() for x in inputs[:3]]
    loss, likelihood = function(*learned, *inputs[3:], **options)
    assert not likelihood.requires_grad
    gradients = torch.autograd.grad(factor * loss, [x for x in learned if x is not None])
    return [loss.detach(), likelihood, *gradients]


def same(inputs, dtype=torch.float64, rtol=1e-12, **options):
    """Both ways agree, relative to the largest number of each result."""
    assert (
        BLOCKS.unsupported_reason(*(x.to(dtype) if x is not None and x.is_floating_point() else x for x in inputs))
        is None
    )
    found = run(ops.linear_cross_entropy, inputs, dtype, **options)
    right = run(reference, inputs, torch.float64, **options)
    for ours, theirs in zip(found, right, strict=True):
        assert ours.dtype == dtype
        finite = theirs[theirs.isfinite()].abs()
        size = float(finite.max()) if finite.numel() else 0.0
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=rtol * max(size, 1e-30), equal_nan=True)


@here
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(("masked", "silenced", "biased"), [(1, 1, 1), (0, 1, 1), (1, 0, 0), (0, 0, 1)])
@pytest.mark.parametrize("sizes", [(67, 5, 33), (1, 1, 3), (130, 17, 256)], ids=str)
def test_loss_and_gradients_are_those_of_the_formula(sizes, masked, silenced, biased, smoothing):
    features, weight, bias, targets, mask, never = drawn(*sizes)
    given = [features, weight, bias if biased else None, targets.clamp(min=2), mask if masked else None]
    same([*given, never if silenced else None], smoothing=smoothing, factor=0.3)


@here
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_float32_is_as_near_as_it_can_be(scale, smoothing):
    inputs = drawn(150, 64, 301, scale=scale)
    found = run(ops.linear_cross_entropy, inputs, torch.float32, smoothing=smoothing)
    plain = run(reference, inputs, torch.float32, smoothing=smoothing)
    right = run(
        reference,
        [x.float().double() if x.is_floating_point() else x for x in inputs],
        smoothing=smoothing,
    )
    for ours, theirs, exact in zip(found, plain, right, strict=True):
        allowed = 2 * max(float((theirs - exact).abs().max()), 1e-6 * float(exact.abs().max()))
        assert float((ours - exact).abs().max()) <= allowed


@here
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("kept", "fewest"), [(1, 1), (33 * 7, 1), (1, 64), (33 * 67, 1)])
def test_how_rows_are_cut_into_blocks_changes_nothing(monkeypatch, kept, fewest, smoothing):
    monkeypatch.setattr(sys.modules["regard.ops.linear_cross_entropy"], "BLOCK_ELEMENTS", kept)
    monkeypatch.setattr(sys.modules["regard.ops.linear_cross_entropy"], "MIN_ROWS", fewest)
    same(drawn(), smoothing=smoothing)
    same(drawn(150, 64, 301), torch.float32, 3e-6, smoothing=smoothing)


@here
def test_packed_products_of_uneven_blocks_are_right(monkeypatch):
    monkeypatch.setattr(sys.modules["regard.ops.linear_cross_entropy"], "BLOCK_ELEMENTS", 64 * 700)
    same(drawn(150, 96, 700), torch.float32, 3e-6)


@here
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    ("name", "at", "number"),
    [
        ("bias", 4, -INF),
        ("bias", 4, INF),
        ("bias", 4, NAN),
        ("bias", 0, INF),
        ("bias", 0, NAN),
        ("bias", slice(None), -INF),
        ("bias", slice(None), NAN),
        ("bias", 5, 3e4),
        ("bias", 5, -3e4),
        ("features", (3, 1), NAN),
        ("features", (3, 1), INF),
        ("weight", (7, 2), NAN),
        ("targets", 3, 0),
        ("targets", 3, 4),
    ],
)
def test_what_is_no_number_spreads_as_in_the_formula(name, at, number, smoothing, dtype):
    inputs = dict(zip(("features", "weight", "bias", "targets", "mask", "never"), drawn(6, 3, 9), strict=True))
    inputs["targets"] = torch.tensor([2, 3, 4, 5, 6, 7])
    inputs["mask"] = torch.tensor([1, 1, 1, 1, 1, 0]).bool()
    if name == "targets":
        inputs["bias"][4] = -INF
    inputs[name][at] = number
    same(list(inputs.values()), dtype, 1e-12 if dtype == torch.float64 else 1e-6, smoothing=smoothing)


@here
def test_large_logits_overflow_nowhere():
    inputs = drawn(40, 4, 50)
    inputs[2] += 1e30 * torch.randn(50, dtype=torch.float64)
    same(inputs, smoothing=0.1)
    assert all(x.isfinite().all() for x in run(ops.linear_cross_entropy, inputs, torch.float32))


@here
def test_a_target_that_is_never_said_costs_infinity_and_the_gradients_stay_numbers():
    inputs = drawn(4, 3, 9)
    inputs[3][:] = 0
    inputs[4][:] = True
    loss, likelihood, *gradients = run(ops.linear_cross_entropy, inputs)
    assert loss == likelihood == INF
    assert all(x.isfinite().all() and x.any() for x in gradients)


@here
@pytest.mark.parametrize("kind", ["no rows", "all masked"])
def test_nothing_costs_nothing(kind):
    features, weight, bias, targets, mask, never = drawn(0 if kind == "no rows" else 6, 3, 9)
    found = run(ops.linear_cross_entropy, [features, weight, bias, targets, torch.zeros_like(mask), never])
    assert [float(x.abs().sum()) for x in found] == [0.0] * 5


@here
@pytest.mark.parametrize("number", [NAN, INF])
def test_masked_rows_do_not_matter_whatever_they_hold(number):
    inputs = drawn()
    inputs[0][~inputs[4]] = number
    for function in (ops.linear_cross_entropy, reference):
        found = run(function, inputs, smoothing=0.1)
        assert all(x.isfinite().all() for x in found)
        assert not found[2][~inputs[4]].any()


def test_sums_are_those_of_losses_over_sentences():
    features, weight, bias, targets, mask, _ = drawn(12, 5, 9)
    said = nn.functional.linear(features, weight, bias).log_softmax(-1).view(3, 4, 9)
    given = features.view(3, 4, 5), weight, bias, targets.view(3, 4), mask.view(3, 4)
    found = ops.linear_cross_entropy(*given, smoothing=0.1)
    torch.testing.assert_close(found, losses.cross_entropy(said, *given[3:], smoothing=0.1), rtol=1e-12, atol=0)


@here
@pytest.mark.parametrize("wanted", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1)])
def test_gradients_are_made_where_they_are_wanted(wanted):
    inputs = drawn()
    every = run(ops.linear_cross_entropy, inputs)[2:]
    leaves = [x.clone().requires_grad_(bool(want)) for x, want in zip(inputs[:3], wanted, strict=True)]
    ops.linear_cross_entropy(*leaves, *inputs[3:])[0].backward()
    for leaf, want, right in zip(leaves, wanted, every, strict=True):
        assert (leaf.grad is not None) == bool(want)
        if want:
            torch.testing.assert_close(leaf.grad, right)


@here
def test_without_gradients_the_sums_are_the_same():
    inputs = [x.requires_grad_() if x.is_floating_point() else x for x in drawn()]
    loss, likelihood = ops.linear_cross_entropy(*inputs, smoothing=0.1)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            again = ops.linear_cross_entropy(*inputs, smoothing=0.1)
        assert not again[0].requires_grad
        torch.testing.assert_close(again, (loss.detach(), likelihood), rtol=0, atol=0)


@here
def test_a_graph_that_is_kept_is_gone_through_again_with_another_factor():
    features, *others = drawn()
    features.requires_grad_()
    loss, _ = ops.linear_cross_entropy(features, *others)
    first, second, third = (
        torch.autograd.grad(factor * loss, features, retain_graph=factor < 5)[0] for factor in (2, 3, 5)
    )
    torch.testing.assert_close((second, third), (1.5 * first, 2.5 * first))


@here
def test_gradients_are_those_of_finite_differences():
    *learned, targets, mask, never = drawn(5, 3, 7)
    leaves = [x.requires_grad_() for x in learned]
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda *given: ops.linear_cross_entropy(*given, targets, mask, never, smoothing=0.2)[0], leaves)


@here
def test_features_that_stand_apart_are_read_where_they_are():
    inputs = drawn()
    wide = torch.zeros(*inputs[0].shape, 3, dtype=torch.float64)
    wide[..., 1] = inputs[0]
    right = run(ops.linear_cross_entropy, inputs)
    found = run(ops.linear_cross_entropy, [wide[..., 1], *inputs[1:]])
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)
    transposed = inputs[1].t().contiguous().t()
    torch.testing.assert_close(run(ops.linear_cross_entropy, [inputs[0], transposed, *inputs[2:]]), right)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_left_to_the_formula(dtype):
    inputs = drawn()
    given = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    assert "float32" in str(BLOCKS.unsupported_reason(*given))
    loss, *_, grad_bias = run(ops.linear_cross_entropy, inputs, dtype)
    assert (loss.dtype, grad_bias.dtype) == (torch.float32, dtype)


def test_autocast_and_transforms_are_left_to_the_formula():
    inputs = [x.float() if x.is_floating_point() else x for x in drawn()]
    with torch.autocast("cpu", torch.bfloat16):
        assert BLOCKS.unsupported_reason(*inputs) is not None
    features, *others = inputs
    grad_features = torch.func.grad(lambda x: ops.linear_cross_entropy(x, *others)[0])(features)
    right = run(reference, inputs, torch.float32)[2]
    torch.testing.assert_close(grad_features, right)


@here
@pytest.mark.parametrize("target", [-1, 33])
def test_targets_outside_the_vocabulary_are_refused(target):
    inputs = drawn()
    inputs[3][:], inputs[4][:] = target, True
    with pytest.raises(ShapeError, match=rf"N=33; got {target} to {target}"):
        inspect.unwrap(ops.linear_cross_entropy)(*inputs)


@pytest.mark.parametrize("index", [1, 2, 3, 4, 5])
def test_sizes_that_do_not_fit_are_shown(index):
    inputs = drawn()
    inputs[index] = inputs[index][..., :-1]
    with pytest.raises(ShapeError, match=r"(?s)features .*D=5.*weight "):
        inspect.unwrap(ops.linear_cross_entropy)(*inputs)


@here
@pytest.mark.parametrize("tied", ["no", "as wide", "through a map"])
@pytest.mark.parametrize("never", [(), (0, 1)])
def test_a_head_has_the_gradients_of_its_log_probabilities(tied, never):
    embedding = TokenEmbedding(40, 6 if tied == "through a map" else 8)
    head = TokenHead(8, 40, tied=None if tied == "no" else embedding, never=never)
    both = nn.ModuleList([embedding, head]).double()
    inputs, targets, mask = torch.randint(40, (3, 5)), torch.randint(2, 40, (3, 5)), torch.rand(3, 5) > 0.2
    widen = torch.randn(embedding.size, 8, dtype=torch.float64)

    def gradients(speak):
        own = copy.deepcopy(both)
        loss, likelihood = speak(own[1], own[0](inputs) @ widen)
        loss.backward()
        return [loss.detach(), likelihood, *(p.grad for p in own.parameters())]

    found = gradients(lambda head, x: head.cross_entropy(x, targets, mask, smoothing=0.1))
    right = gradients(lambda head, x: losses.cross_entropy(head(x), targets, mask, smoothing=0.1))
    torch.testing.assert_close(found, right, rtol=1e-11, atol=1e-12)


@here
def test_no_logits_of_all_rows_are_kept():
    inputs = [x.float() if x.is_floating_point() else x for x in drawn(2000, 8, 2000)]
    inputs[4] = None
    inputs[3] = inputs[3].clamp(min=2)
    leaves = [x.requires_grad_() for x in inputs[:3]]
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        sizes: list[int] = []
        ops.linear_cross_entropy(*leaves, *inputs[3:])
    assert max(sizes) <= 2000 * 8
