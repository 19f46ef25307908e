"""Batch normalisation of real rows: every implementation is the equation, for any mask, activation and residual."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace

import jaxtyping
import pytest
import torch

from regard.errors import ShapeError
from regard.ops import IMPLEMENTATIONS, batch_norm, plain
from regard.ops.switch import switched_off
from support.cases.case import draw

module = sys.modules["regard.ops.batch_norm"]

NAMED = {one.name: one for one in IMPLEMENTATIONS["batch_norm"]}
TOPS = {"none": None, "relu": math.inf, "relu6": 6.0}
OPTIONS = list(itertools.product(TOPS, (False, True), (False, True), (False, True)))


def equation(x, mask, weight, bias, residual, statistics, epsilon, activation):
    """The rows one by one, in plain numbers."""
    rows, size = x.shape
    real = [r for r in range(rows) if mask is None or mask[r]]
    result = [[0.0] * size for _ in range(rows)]
    for f in range(size):
        if statistics is None:
            mean = sum(x[r, f].item() for r in real) / len(real)
            variance = sum((x[r, f].item() - mean) ** 2 for r in real) / len(real)
        else:
            mean, variance = (v[f].item() for v in statistics)
        for r in real:
            p = weight[f].item() * (x[r, f].item() - mean) / math.sqrt(variance + epsilon) + bias[f].item()
            p += 0 if residual is None else residual[r, f].item()
            top = TOPS[activation]
            result[r][f] = p if top is None else min(max(p, 0.0), top)
    return torch.tensor(result, dtype=torch.float64)


def inputs_of(rows, size, *, masked, adds, given, dtype=torch.float32, offset=0.0):
    x = (3 * draw(rows, size) + offset).to(dtype)
    mask = draw(rows, seed=1) < 0.5 if masked else None
    residual = draw(rows, size, seed=2).to(dtype) if adds else None
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    statistics = (draw(size, seed=3).to(wide) + offset, draw(size, seed=4).exp().to(wide)) if given else None
    return x, mask, draw(size, seed=5).to(wide), 2 + draw(size, seed=6).to(wide), residual, statistics, 1e-3


def run(function, inputs, activation, probe):
    leaves = [None if v is None or v.dtype == torch.bool else v.clone().requires_grad_() for v in inputs[:5]]
    called = [v if leaf is None else leaf for v, leaf in zip(inputs[:5], leaves, strict=True)]
    y, *statistics, count = function(*called, *inputs[5:], activation)
    gradients = torch.autograd.grad(y, [leaf for leaf in leaves if leaf is not None], probe.to(y.dtype))
    return [y.detach(), *statistics, *gradients], count


@pytest.mark.parametrize(("activation", "masked", "adds", "given"), OPTIONS)
@pytest.mark.parametrize("name", ["selection", "sums", "reference"])
def test_plain_implementations_are_the_equation(name, activation, masked, adds, given):
    if name == "sums" and not masked:
        pytest.skip("without a mask torch's own is taken")
    inputs = inputs_of(7, 3, masked=masked, adds=adds, given=given, dtype=torch.float64)
    y, *_ = NAMED[name].function(*inputs, activation)
    torch.testing.assert_close(y, equation(*inputs, activation), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("activation", "masked", "adds", "given"), OPTIONS)
@pytest.mark.parametrize(("dtype", "offset"), [(torch.float32, 0.0), (torch.float32, 300.0), (torch.bfloat16, 0.0)])
@pytest.mark.parametrize(("rows", "size"), [(61, 5), (1500, 24), (5, 900)])
def test_kernels_are_as_near_to_float64_as_torch_is(rows, size, dtype, offset, activation, masked, adds, given):
    inputs = inputs_of(rows, size, masked=masked, adds=adds, given=given, dtype=dtype, offset=offset)
    if (reason := NAMED["numba"].unsupported_reason(*inputs, activation)) is not None:
        pytest.skip(reason)
    double = [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in inputs]
    double[5] = None if inputs[5] is None else tuple(v.double() for v in inputs[5])
    probe = draw(rows, size, seed=9)
    ours, count = run(NAMED["numba"].function, inputs, activation, probe)
    torchs, _ = run(NAMED["selection"].function, inputs, activation, probe)
    exact, exact_count = run(NAMED["reference"].function, double, activation, probe.to(dtype))
    assert int(count) == int(exact_count)
    for a, b, c in zip(ours, torchs, exact, strict=True):
        scale = float(c.abs().max().clamp(min=1))
        allowed = max(2 * float((b.double() - c).abs().max()), 16 * torch.finfo(dtype).eps * scale)
        assert float((a.double() - c).abs().max()) <= allowed


@pytest.mark.parametrize(("activation", "masked", "adds", "given"), [one for one in OPTIONS if one[1]])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_sums_have_the_gradients_of_the_reference(dtype, activation, masked, adds, given):
    inputs = inputs_of(61, 5, masked=masked, adds=adds, given=given, dtype=dtype)
    probe = draw(61, 5, seed=9)
    found, expected = (run(NAMED[name].function, inputs, activation, probe) for name in ("sums", "reference"))
    assert int(found[1]) == int(expected[1])
    for a, b in zip(found[0], expected[0], strict=True):
        assert a.dtype == b.dtype
        tolerance = 1e-12 if dtype == torch.float64 else 0.02
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NAMED)
def test_what_stands_at_padding_does_not_matter(name):
    results = []
    for filler in (0.0, math.nan, math.inf):
        x, mask, weight, bias, residual, _, epsilon = inputs_of(9, 4, masked=True, adds=True, given=False)
        fill = ~mask[:, None]
        inputs = x.masked_fill(fill, filler), mask, weight, bias, residual.masked_fill(fill, filler), None, epsilon
        probe = draw(9, 4, seed=9).masked_fill(fill, 1.0)
        results.append(run(NAMED[name].function, inputs, "none", probe)[0])
        assert not results[-1][0][~mask].any()
    for others in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], others, strict=True))


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("count", [0, 1])
def test_no_row_and_a_single_one_are_finite(name, count):
    x, _, weight, bias, _, _, epsilon = inputs_of(3, 4, masked=False, adds=False, given=False)
    mask = torch.arange(3) < count
    (y, mean, variance, *gradients), n = run(
        NAMED[name].function, (x, mask, weight, bias, None, None, epsilon), "none", torch.ones(3, 4)
    )
    assert int(n) == count
    assert all(v.isfinite().all() for v in (y, mean, variance, *gradients))
    torch.testing.assert_close(y[mask], bias.expand(count, 4))
    assert not variance.any()


@pytest.mark.parametrize("name", ["numba", "sums"])
def test_gradients_of_gradients_are_those_of_the_reference(name, monkeypatch):
    taken = replace(NAMED[name], unsupported_reason=lambda *inputs: switched_off())
    monkeypatch.setattr(module, "BATCH_NORM", (taken, NAMED["reference"]))
    x, mask, weight, bias, residual, _, _ = inputs_of(9, 4, masked=True, adds=True, given=False)

    def second():
        leaves = [v.clone().requires_grad_() for v in (x, weight, bias, residual)]
        y, *_ = batch_norm(leaves[0], mask, *leaves[1:], activation="relu")
        first = torch.autograd.grad(y.square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum((g.square()).sum() for g in first), leaves)

    ours = second()
    with plain():
        expected = second()
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * float(b.abs().max()))


def test_any_axes_stand_before_the_features():
    x, mask = draw(2, 3, 4, 5).float(), draw(2, 3, 4, seed=1) > 0
    weight, bias = draw(5, seed=2).float(), draw(5, seed=3).float()
    y, *statistics = batch_norm(x, mask, weight, bias)
    flat, *others = batch_norm(x.flatten(0, 2), mask.flatten(), weight, bias)
    assert torch.equal(y.flatten(0, 2), flat)
    assert all(torch.equal(a, b) for a, b in zip(statistics, others, strict=True))
    transposed = x.transpose(0, 2).contiguous().transpose(0, 2)
    assert torch.equal(batch_norm(transposed, mask, weight, bias)[0], y)


def test_wrong_sizes_are_told(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    x, weight = torch.zeros(2, 3, 4), torch.ones(4)
    for arguments in (
        (x, torch.ones(2, 4, dtype=torch.bool), weight, weight),
        (x, None, torch.ones(3), weight),
        (x, None, weight, weight, torch.zeros(2, 4)),
    ):
        with pytest.raises(ShapeError, match=r"x \(\.\.\., F\), mask"):
            batch_norm(*arguments)
