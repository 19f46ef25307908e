"""What is compiled for a step, cells and looks, is what torch's operations give, forward and backward."""

import pytest
import torch

from regard.ops import threads
from regard.ops.attend import numba as fast_look
from regard.ops.attend import reference as plain_look
from regard.ops.cells import numba as fast_cells
from regard.ops.cells import reference as plain_cells
from regard.ops.choose import steps_for

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
    copy = lambda x: x.clone() if isinstance(x, torch.Tensor) else x  # noqa: E731
    ours, plain = ({name: copy(x) for name, x in buffers.items()} for _ in range(2))
    getattr(fast_cells, step)(1, **ours)
    getattr(plain_cells, step)(1, **plain)
    return ours, plain


def assert_same(ours, plain, dtype):
    for name, expected in plain.items():
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(
                ours[name], expected, rtol=0, atol=TOLERANCE[dtype], msg=lambda m, n=name: f"{n}: {m}"
            )


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("shared", [1, "rows"])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_cells_are_those_of_torch(rows, shared, scale, dtype, hands):
    def draw(*shape):
        return scale * torch.randn(*shape, dtype=dtype)

    size, wide, shared = 7, 11, rows if shared == "rows" else shared
    lstm = {
        "gates": draw(rows, 4 * size),
        "shared": draw(shared, 4 * size),
        "cells": torch.randn(3, rows, size, dtype=dtype),
        "tangents": torch.zeros(2, rows, size, dtype=dtype),
        "hidden": torch.randn(3, rows, wide, dtype=dtype),
    }
    ours, plain = both("lstm", lstm)
    assert_same(ours, plain, dtype)
    back = {name: plain[name] for name in ("gates", "cells", "tangents")}
    back |= {"grad_hidden": torch.randn(rows, size, dtype=dtype), "grad_cells": torch.randn(rows, size, dtype=dtype)}
    assert_same(*both("lstm_backward", {**back, "grad_gates": torch.zeros(2, rows, 4 * size, dtype=dtype)}), dtype)

    gru = {
        "gates": draw(rows, 3 * size),
        "shared": draw(shared, 3 * size),
        "recurrent": draw(rows, 3 * size),
        "hidden": torch.randn(3, rows, wide, dtype=dtype),
    }
    ours, plain = both("gru", gru)
    assert_same(ours, plain, dtype)
    back = {name: plain[name] for name in ("recurrent", "gates", "hidden")}
    back |= {"grad_hidden": torch.randn(rows, size, dtype=dtype)}
    back["recurrent"] = back["recurrent"] / scale
    assert_same(*both("gru_backward", {**back, "grad_gates": torch.zeros(2, rows, 4 * size, dtype=dtype)}), dtype)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_rows_of_one_parent_share_its_products(cell, dtype, hands):
    size, parent, gates = 7, torch.tensor([2, 0, 0, 1, 2]), {"lstm": 4, "gru": 3}[cell]
    rows = {"shared": torch.randn(3, gates * size, dtype=dtype)}
    rows |= {"recurrent": torch.randn(3, gates * size, dtype=dtype)} if cell == "gru" else {}
    kept = {"lstm": ("cells", "tangents", "hidden"), "gru": ("hidden",)}[cell]
    buffers = {name: torch.randn(3, 5, size, dtype=dtype) for name in kept}
    buffers["gates"] = torch.randn(5, gates * size, dtype=dtype)
    ours, plain = both(cell, {**rows, **buffers, "parent": parent})
    assert_same(ours, plain, dtype)
    alone, _ = both(cell, {**buffers, **{name: x[parent] for name, x in rows.items()}})
    torch.testing.assert_close(ours["hidden"], alone["hidden"], rtol=0, atol=0)


@pytest.mark.parametrize("told", [True, False])
def test_readouts_are_those_of_torch(told, dtype, hands):
    outputs = torch.randn(4, 5, 12, dtype=dtype)
    assert_same(*both("read_out", {"sums": torch.randn(5, 7, dtype=dtype), "outputs": outputs, "column": 3}), dtype)
    back = {"grad_later": torch.randn(5, 7, dtype=dtype), "grad_sums": torch.zeros(3, 5, 7, dtype=dtype)}
    back |= {"grad_outputs": torch.randn(3 if told else 0, 5, 7, dtype=dtype), "outputs": outputs.tanh(), "column": 3}
    assert_same(*both("read_out_backward", back), dtype)


def test_the_tangent_of_a_sum_is_that_of_torch(dtype, hands):
    first, second = torch.randn(5, 7, dtype=dtype), torch.randn(5, 7, dtype=dtype)
    expected = (first + second).tanh()
    for module in (fast_cells, plain_cells):
        found = first.clone()
        module.tanh_of_sum(found, second)
        torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE[dtype])


def test_a_small_tangent_keeps_its_digits(dtype):
    """c' = tanh(g) with open gates: relative to the result, not to one."""
    small = torch.tensor([1e-7, -3e-5, 2e-3, 0.1, 0.399, 0.401, 2.0], dtype=dtype)
    gates = torch.cat([torch.full((7,), 40.0, dtype=dtype), torch.zeros(7, dtype=dtype), small, small])[None]
    cells = torch.zeros(2, 1, 7, dtype=dtype)
    fast_cells.lstm(
        0, gates, torch.zeros(1, 28, dtype=dtype), cells, torch.zeros_like(cells[1:]), torch.zeros_like(cells)
    )
    expected = small.double().tanh().to(dtype)
    torch.testing.assert_close(cells[1, 0], expected, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_what_is_no_number_stays_so(dtype):
    gates = torch.zeros(1, 12, dtype=dtype)
    gates[0, 7] = float("nan")
    cells, hidden = torch.zeros(2, 1, 3, dtype=dtype), torch.zeros(2, 1, 3, dtype=dtype)
    fast_cells.lstm(0, gates, torch.zeros(1, 12, dtype=dtype), cells, torch.zeros(1, 1, 3, dtype=dtype), hidden)
    assert hidden[1, 0].isnan().tolist() == [False, True, False]


SHAPES = {"one head": (1, 1, 1), "heads share values": (2, 2, 1), "heads of both": (2, 2, 2), "shared keys": (4, 2, 1)}


@pytest.mark.parametrize(("kind", "scale"), [("additive", 1.0), ("additive", 60.0), ("rectified", 1.0), ("dot", 1.0)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("masked", [True, False])
def test_looks_are_those_of_torch(kind, shape, masked, scale, dtype, hands):
    heads, groups, values = SHAPES[shape]
    groups = groups if kind == "dot" else heads
    torch.manual_seed(5)
    batch, positions, size, width, steps = 3, 5, 6, 4, 2
    keys = scale * torch.randn(batch, positions, groups, size, dtype=dtype)
    keys[1:] /= scale  # far and near sentences in one batch
    read = torch.randn(batch, positions, values, width, dtype=dtype)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool) if masked else None
    v = torch.randn(heads, size, dtype=dtype) if kind != "dot" else None
    queries = torch.randn(steps, batch, heads * size, dtype=dtype)
    grad_contexts = torch.randn(steps, batch, heads * width, dtype=dtype)
    grad_weights = torch.randn(steps, batch, heads, positions, dtype=dtype)
    found = []
    for module in (fast_look, plain_look):
        look = module.LOOKS[kind](keys, read, mask, v, steps=steps, num_heads=heads, sharpening=1.5)
        contexts = torch.zeros(steps, batch, 3 + heads * width, dtype=dtype)
        for t in range(steps):
            look.forward(t, queries[t], contexts, 3)
        back = look.reverse()
        for t in reversed(range(steps)):
            back.backward(t, grad_contexts, grad_weights[t] if t else None)
        found.append([contexts, look.weights, back.grad_queries, *back.gradients(grad_contexts)])
    for ours, plain in zip(*found, strict=True):
        if plain is None:
            assert ours is None
            continue
        assert plain.isfinite().all()
        atol = TOLERANCE[dtype] * max(1.0, float(plain.abs().max()))
        torch.testing.assert_close(ours, plain, rtol=0, atol=atol)


def test_compiled_loops_are_taken_on_a_cpu_alone(dtype):
    for operation in ("cells", "attend"):
        assert steps_for(operation, "cpu").__name__ == f"regard.ops.{operation}.numba"
        assert steps_for(operation, "cuda").__name__ == f"regard.ops.{operation}.reference"
