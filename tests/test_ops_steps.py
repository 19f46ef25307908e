"""What is compiled for a step, of cells and attention, is what torch's operations give, forward and backward."""

import pytest
import torch

from regard import ops
from regard.ops import cells as plain_cells
from regard.ops import threads
from regard.ops.choose import steps_for
from regard.ops.kernels import cells as fast_cells
from regard.ops.over_steps import Loop

TOLERANCE = {torch.float32: 5e-6, torch.float64: 1e-13}
KINDS = [torch.float32, torch.float64]
pytestmark = pytest.mark.parametrize("dtype", KINDS, ids=str)


@pytest.fixture(params=["alone", "two threads"])
def hands(request, monkeypatch):
    if request.param == "two threads":
        monkeypatch.setattr(threads, "GRAIN_SIZE", 1)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


def both(step, buffers):
    """Buffers after the compiled step and after torch's."""
    ours, plain = ({name: x.clone() for name, x in buffers.items()} for _ in range(2))
    getattr(fast_cells, step)(*ours.values())
    getattr(plain_cells, step)(*plain.values())
    return ours, plain


def assert_same(ours, plain, dtype):
    for name, expected in plain.items():
        torch.testing.assert_close(
            ours[name], expected, rtol=0, atol=TOLERANCE[dtype], msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_cells_are_those_of_torch(rows, scale, dtype, hands):
    size = 7

    def draw(*shape, by=1.0):
        return by * torch.randn(*shape, dtype=dtype)

    lstm = {"gates": draw(rows, 4 * size, by=scale), "bias": draw(4 * size, by=scale)}
    lstm |= {name: draw(rows, size) for name in ("last_cells", "cells", "tangents", "hidden")}
    ours, plain = both("lstm", lstm)
    assert_same(ours, plain, dtype)
    back = {name: plain[name] for name in ("gates", "last_cells", "tangents")}
    back |= {"grad_hidden": draw(rows, size), "grad_cells": draw(rows, size), "grad_gates": draw(rows, 4 * size)}
    assert_same(*both("lstm_backward", back), dtype)

    gru = {"gates": draw(rows, 3 * size, by=scale), "bias": draw(3 * size, by=scale)}
    gru |= {"recurrent": draw(rows, 3 * size, by=scale), "last": draw(rows, size), "hidden": draw(rows, size)}
    ours, plain = both("gru", gru)
    assert_same(ours, plain, dtype)
    back = {name: plain[name] for name in ("gates", "recurrent", "last")}
    back |= {"grad_hidden": draw(rows, size), "grad_gates": draw(rows, 4 * size)}
    back["recurrent"] = back["recurrent"] / scale
    assert_same(*both("gru_backward", back), dtype)


def test_a_small_tangent_keeps_its_digits(dtype):
    """c' = tanh(g) with open gates: relative to the result, not to one."""
    small = torch.tensor([1e-7, -3e-5, 2e-3, 0.1, 0.399, 0.401, 2.0], dtype=dtype)
    gates = torch.cat([torch.full((7,), 40.0, dtype=dtype), torch.zeros(7, dtype=dtype), small, small])[None]
    last, cells, tangents, hidden = torch.zeros(4, 1, 7, dtype=dtype)
    fast_cells.lstm(gates, torch.zeros(28, dtype=dtype), last, cells, tangents, hidden)
    expected = small.double().tanh().to(dtype)
    torch.testing.assert_close(cells[0], expected, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_what_is_no_number_stays_so(dtype):
    gates = torch.zeros(1, 12, dtype=dtype)
    gates[0, 7] = float("nan")
    last, cells, tangents, hidden = torch.zeros(4, 1, 3, dtype=dtype)
    fast_cells.lstm(gates, torch.zeros(12, dtype=dtype), last, cells, tangents, hidden)
    assert hidden[0].isnan().tolist() == [False, True, False]


SHAPES = {"one head": (1, 1, 1), "heads share values": (2, 2, 1), "heads of both": (2, 2, 2), "shared keys": (4, 2, 1)}


@pytest.mark.parametrize(("kind", "scale"), [("additive", 1.0), ("additive", 60.0), ("dot", 1.0)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("masked", [True, False])
def test_attention_is_that_of_torch(kind, shape, masked, scale, dtype, hands):
    heads, groups, values = SHAPES[shape]
    groups = groups if kind == "dot" else heads
    torch.manual_seed(5)
    batch, positions, size, width, steps, hypotheses = 3, 5, 6, 4, 2, 2
    keys = scale * torch.randn(batch, positions, groups, size, dtype=dtype)
    keys[1:] /= scale  # far and near sentences in one batch
    read = torch.randn(batch, positions, values, width, dtype=dtype)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool) if masked else None
    queries = torch.randn(steps, batch * hypotheses, heads, size, dtype=dtype)
    inputs = [queries, keys, read, *([torch.randn(heads, size, dtype=dtype)] if kind == "additive" else [])]
    found = []
    for context in (Loop, ops.plain):
        leaves = [x.clone().requires_grad_() for x in inputs]
        with context():
            memory = leaves[1], leaves[2], mask, *leaves[3:]
            outputs = [ops.attend(query, *memory, sharpening=1.5) for query in leaves[0].unbind(0)]
        results = [x for both in outputs for x in both]
        probes = [torch.linspace(-1, 2, x.numel(), dtype=dtype).view_as(x) for x in results]
        found.append([*results, *torch.autograd.grad(results, leaves, probes)])
    for ours, plain in zip(*found, strict=True):
        assert plain.isfinite().all()
        atol = TOLERANCE[dtype] * max(1.0, float(plain.detach().abs().max()))
        torch.testing.assert_close(ours, plain, rtol=0, atol=atol)


def test_compiled_loops_are_taken_on_a_cpu_alone(dtype):
    assert steps_for("cells", "cpu").__name__ == "regard.ops.kernels.cells"
    assert steps_for("cells", "cuda").__name__ == "regard.ops.cells"
