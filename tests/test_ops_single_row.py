"""Parts of a step for a single row: kernels say what the plain formulas say."""

from __future__ import annotations

import pytest
import torch

from regard.ops.single_row import reference
from regard.ops.single_row.numba import Located, Lstm, Map

ROWS, SPARSE, POSITIONS, LEFT, RIGHT, SIZE = 2, 6, 9, 3, 2, 5


def draw(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def affine(size, without=(), dtype=torch.float64):
    """A map and its inputs."""
    widths = {"x": SPARSE, "alpha": POSITIONS, "left": LEFT, "right": RIGHT}
    counts = [0 if name in without else count for name, count in widths.items()]
    maps = reference.Affine(
        draw(size, dtype=dtype),
        draw(counts[0], size, dtype=dtype),
        draw(counts[1], size, dtype=dtype),
        draw(size, counts[2] + counts[3], dtype=dtype),
    )
    inputs = [draw(ROWS, count, dtype=dtype) for count in counts]
    inputs[0].relu_()
    if counts[1]:
        inputs[1] = inputs[1].mul(20).softmax(1)
    return maps, inputs


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("without", [(), ("x",), ("alpha", "right"), ("x", "alpha"), ("left", "right")])
def test_a_sum_of_parts_is_the_product(without):
    maps, inputs = affine(7, without)
    given = [part if part.shape[1] else None for part in inputs]
    torch.testing.assert_close(Map(maps)(*given, ROWS), reference.affine(maps, *inputs))


@pytest.mark.parametrize("masked", [False, True])
def test_a_layer_of_a_prenet(masked):
    maps, (x, *_) = affine(7, ("alpha", "left", "right"))
    mask = torch.tensor([[2.0, 0, 0, 2, 2, 0, 2]] * ROWS, dtype=torch.float64) if masked else None
    torch.testing.assert_close(Map(maps).rectified(x, mask), reference.rectify(maps, x, mask))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("without", [(), ("x", "right"), ("x", "alpha", "left", "right")])
def test_the_step_of_an_lstm(without, dtype):
    maps, inputs = affine(4 * SIZE, without, dtype)
    recurrent, h, c = draw(4 * SIZE, SIZE, dtype=dtype), draw(ROWS, SIZE, dtype=dtype), draw(ROWS, SIZE, dtype=dtype)
    given = [part if part.shape[1] else None for part in inputs]
    found = Lstm(maps, recurrent).step(*given, h, c)
    for actual, expected in zip(found, reference.lstm(maps, recurrent, *inputs, h, c), strict=True):
        torch.testing.assert_close(actual, expected)


def test_threads_share_the_units(monkeypatch):
    maps, inputs = affine(4 * SIZE)
    recurrent, h, c = draw(4 * SIZE, SIZE), draw(ROWS, SIZE), draw(ROWS, SIZE)

    def in_parts(kernel, arguments, count, work):
        for start, stop in ((0, 2), (2, 3), (3, count)):
            kernel(*arguments, start, stop)

    monkeypatch.setattr("regard.ops.single_row.numba.parallel_for", in_parts)
    found = Lstm(maps, recurrent).step(*inputs, h, c)
    for actual, expected in zip(found, reference.lstm(maps, recurrent, *inputs, h, c), strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mask", [None, [True] * 4 + [False] * 5, [False] * 9])
def test_located_attention_and_what_its_next_step_reads(channels, mask):
    heads, size, width = 2, 4, 5
    maps = reference.Affine(draw(heads * size), draw(0, 8), draw(0, 8), draw(heads * size, 3))
    keys, matrix, v = draw(POSITIONS, heads, size), draw(heads, channels * width, size), draw(heads, size)
    cells, past = draw(ROWS, 3), draw(ROWS, heads, channels, POSITIONS).relu()
    total = past[:, :, -1].clone()
    mask = None if mask is None else torch.tensor(mask)
    kernel = Located(Map(maps), keys, matrix, v, mask, 1.5)
    alpha, after, sums, _ = kernel(cells, past, total, channels - 1, True)
    nothing = cells[:, :0]
    query = reference.affine(maps, nothing, nothing, cells, nothing).unflatten(1, (heads, size))
    expected = reference.located(query, keys, past, matrix, v, mask, 1.5)
    torch.testing.assert_close(alpha, expected)
    torch.testing.assert_close(sums, total + expected)
    torch.testing.assert_close(
        after[:, :, : channels - 1], torch.cat([past[:, :, 1:-1], expected[:, :, None]], 2)[:, :, : channels - 1]
    )
    torch.testing.assert_close(after[:, :, -1], sums)


def test_nan_is_not_passed_over():
    maps, inputs = affine(7)
    inputs[0][0, 1] = torch.nan
    out = Map(maps)(*inputs, ROWS)
    assert out[0].isnan().all()
    assert out[1].isfinite().all()


def test_weights_that_are_negligible_cost_no_digits():
    maps, inputs = affine(7, ("x", "left", "right"))
    inputs[1][:] = 1e-18
    inputs[1][:, 0] = 1
    found = Map(maps)(None, inputs[1], None, None, ROWS)
    torch.testing.assert_close(found, reference.affine(maps, *inputs), rtol=1e-14, atol=1e-14)
