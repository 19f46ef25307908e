"""Sublayers of a Transformer as one node: outputs and every gradient are those of torch's operations."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from regard import ops
from regard.errors import ShapeError, UnsupportedError
from regard.ops import plain
from regard.ops.sublayer import numba as kernels
from regard.ops.sublayer import refuse

B, T, D, F = 3, 9, 64, 96
TOLERANCE = {torch.float64: 1e-12, torch.float32: 4e-6}
KINDS = pytest.mark.parametrize("norm_first", [True, False])
TYPES = pytest.mark.parametrize("dtype", TOLERANCE)


def draw(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + sum(shape)))


def mask_of(*shape, dtype, p=0.3, seed=0):
    return (torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) > p).to(dtype) / (1 - p)


def weights(dtype, *shapes):
    return [draw(*shape, dtype=dtype, seed=10 * i) / shape[-1] ** 0.5 for i, shape in enumerate(shapes)]


def feed_forward(dtype, *, masked=True, norm_first=True, activation="relu"):
    gate = weights(dtype, (F, D), (F,)) if activation == "swiglu" else []
    tensors = [draw(B, T, D, dtype=dtype), *weights(dtype, (D,), (D,), (F, D), (F,), (D, F), (D,)), *gate]
    masks = (mask_of(B, T, D, dtype=dtype), mask_of(B, T, F, dtype=dtype, seed=1)) if masked else (None, None)
    options = {"p": 0.3 if masked else 0.0, "norm_first": norm_first, "epsilon": 1e-3}
    options["activation"], rest = activation, () if gate else (None, None)
    return lambda *given: ops.feed_forward_sublayer(*given, *rest, *masks, **options), tensors


def self_attention(dtype, *, biased=True, norm_first=True, causal=False, groups=2, turned=False, steps=T, masked=True):
    width = groups * D // 2
    tensors = [
        draw(B, steps, D, dtype=dtype),
        *weights(dtype, (D,), (D,), (D, D), (width, D), (width, D), (D, D)),
        *(weights(dtype, (D,), (width,), (width,), (D,)) if biased else ()),
    ]
    support = draw(B, 1, steps) > -0.3 if masked else None
    if support is not None:
        support[1], support[2, :, :2] = False, False
    turn = torch.polar(torch.ones(steps, D // 4, dtype=dtype), draw(steps, D // 4, dtype=dtype)) if turned else None
    options = {"num_heads": 2, "num_key_value_heads": groups, "scale": 0.2, "causal": causal, "norm_first": norm_first}
    rest = () if biased else (None,) * 4
    mask = mask_of(B, steps, D, dtype=dtype)
    return lambda *given: ops.self_attention_sublayer(*given, *rest, mask, support, turn, **options), tensors


def cross_attention(dtype, *, biased=True, norm_first=True, positions=7, turned=False):
    tensors = [
        draw(B, T, D, dtype=dtype),
        *weights(dtype, (D,), (D,), (D, D)),
        draw(B, positions, 1, 32, dtype=dtype),
        draw(B, positions, 1, 16, dtype=dtype),
        *weights(dtype, (D, 32)),
        *(weights(dtype, (D,), (D,)) if biased else ()),
    ]
    support = draw(B, 1, positions) > -0.3
    support[1] = False
    turn = torch.polar(torch.ones(T, 16, dtype=dtype), draw(T, 16, dtype=dtype)) if turned else None
    options = {"num_heads": 2, "scale": 0.2, "norm_first": norm_first}
    rest = () if biased else (None, None)
    return lambda *given: ops.cross_attention_sublayer(*given, *rest, None, support, turn, **options), tensors


CASES = {
    "feed-forward": feed_forward,
    "feed-forward without dropout": partial(feed_forward, masked=False),
    "feed-forward, gelu": partial(feed_forward, activation="gelu"),
    "feed-forward, silu": partial(feed_forward, activation="silu", masked=False),
    "feed-forward, swiglu": partial(feed_forward, activation="swiglu"),
    "self-attention": self_attention,
    "self-attention, causal": partial(self_attention, causal=True),
    "self-attention, turned": partial(self_attention, causal=True, turned=True, masked=False),
    "self-attention, shared keys, no biases": partial(self_attention, groups=1, biased=False),
    "self-attention, long": partial(self_attention, steps=40),
    "self-attention, long, causal, shared": partial(self_attention, steps=40, causal=True, groups=1),
    "cross-attention": cross_attention,
    "cross-attention, no biases": partial(cross_attention, biased=False),
    "cross-attention, turned": partial(cross_attention, turned=True),
    "cross-attention, long": partial(cross_attention, positions=130),
    "cross-attention, long, turned": partial(cross_attention, positions=130, turned=True),
}
NAMES = pytest.mark.parametrize("name", CASES)


def results(function, tensors):
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    output = function(*leaves)
    return output, *torch.autograd.grad(output, leaves, draw(*output.shape, dtype=output.dtype, seed=5))


@NAMES
@KINDS
@TYPES
def test_outputs_and_every_gradient_are_those_of_torchs_operations(name, norm_first, dtype):
    function, tensors = CASES[name](dtype, norm_first=norm_first)
    found = results(function, tensors)
    assert "Sublayer" in type(found[0].grad_fn).__name__
    with plain():
        expected = results(function, tensors)
    for ours, theirs in zip(found, expected, strict=True):
        scale = max(float(theirs.detach().abs().max()), 0.2)  # the gradient of a key's bias is 0
        torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE[dtype] * scale)


@NAMES
def test_second_derivatives_are_those_of_torchs_operations(name):
    function, tensors = CASES[name](torch.float64)

    def second():
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        gradients = torch.autograd.grad(function(*leaves).square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), leaves)

    found = second()
    with plain():
        expected = second()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8 * max(float(theirs.abs().max()), 0.01))


@pytest.mark.parametrize("name", ["feed-forward", "feed-forward, swiglu", "self-attention", "cross-attention"])
def test_gradients_are_made_only_where_they_are_needed(name):
    function, tensors = CASES[name](torch.float64)
    everything = results(function, tensors)[1:]
    for chosen in range(len(tensors)):
        leaves = [tensor.clone().requires_grad_(index == chosen) for index, tensor in enumerate(tensors)]
        output = function(*leaves)
        output.backward(draw(*output.shape, seed=5))
        assert [leaf.grad is not None for leaf in leaves] == [index == chosen for index in range(len(leaves))]
        torch.testing.assert_close(leaves[chosen].grad, everything[chosen], rtol=0, atol=1e-12)


def test_without_gradients_nothing_is_kept_and_the_output_is_the_same():
    function, tensors = self_attention(torch.float64)
    with torch.no_grad():
        output = function(*[tensor.requires_grad_() for tensor in tensors])
    assert not output.requires_grad
    torch.testing.assert_close(output, function(*tensors), rtol=0, atol=0)


def test_kernels_give_the_same_bits_on_any_number_of_threads():
    x, grad = draw(2000, 256, dtype=torch.float32), draw(2000, 256, dtype=torch.float32, seed=1)
    mean, rstd = x.mean(1, keepdim=True), 1 / x.std(1, keepdim=True)

    def run():
        hidden = grad.clone()
        sums = kernels.relu_backward(hidden, x, 1.25)
        return *kernels.layer_norm_backward(grad, x, mean, rstd, x[0], grad), hidden, sums

    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(run())
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_a_nan_is_not_hidden():
    function, tensors = feed_forward(torch.float32, masked=False)
    tensors[0][1, 2, 3] = float("nan")
    found = results(function, tensors)
    assert bool(found[0][1, 2].isnan().all())
    assert not bool(found[0][0].isnan().any())
    assert bool(found[4].isnan().any())


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ((torch.zeros(2, 20, 4, dtype=torch.float16),), "float32 and float64"),
        ((torch.zeros(2, 20, 4), torch.zeros(4, dtype=torch.float64)), "all inputs alike"),
        ((torch.zeros(2, 3, 4),), "too few positions"),
        ((torch.zeros(40, 4),), "whole sequences"),
        ((torch.zeros(2, 0, 4),), "nothing to compute"),
        ((torch.zeros(2, 20, 4, device="meta"),), "on meta"),
    ],
)
def test_refusals_say_why(inputs, reason):
    assert reason in refuse(*inputs)
    assert reason in ops.explain("feed_forward_sublayer", *inputs)


def test_autocast_and_transforms_take_torchs_operations():
    function, tensors = self_attention(torch.float32)
    x = tensors[0].requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        assert "Sublayer" not in str(function(*tensors).grad_fn)
    expected = results(function, tensors)[1]
    probe = draw(*x.shape, dtype=x.dtype, seed=5)
    found = torch.func.grad(lambda x: (function(x, *tensors[1:]) * probe).sum())(x.detach())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x, w: ops.feed_forward_sublayer(x, w[0], w[0], w, None, w[:, :2], None), "inner_weight"),
        (lambda x, w: ops.self_attention_sublayer(x, w[0], w[0], w, w, w, w[:, :2]), "output_weight"),
        (lambda x, w: ops.cross_attention_sublayer(x, w[0], w[0], w, x[..., None], x[..., None], w), "query_weight"),
    ],
)
def test_weights_that_do_not_fit_are_shown(call, name):
    with pytest.raises(ShapeError, match=name):
        call(torch.zeros(2, 3, 4), torch.zeros(4, 4))


def test_a_gate_and_its_activation_belong_together():
    x, w = torch.zeros(2, 3, 4), torch.zeros(4, 4)
    with pytest.raises(UnsupportedError, match="must be one of relu, gelu"):
        ops.feed_forward_sublayer(x, w[0], w[0], w, None, w, None, activation="tanh")
    for options in ({"activation": "swiglu"}, {"gate_weight": w}):
        with pytest.raises(UnsupportedError, match="A gate belongs to"):
            ops.feed_forward_sublayer(x, w[0], w[0], w, None, w, None, **options)
    with pytest.raises(ShapeError, match="gate_weight"):
        ops.feed_forward_sublayer(x, w[0], w[0], w, None, w, None, gate_weight=w[:2], activation="swiglu")
