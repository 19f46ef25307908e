"""The largest entries are those of a stable sort and log-probabilities those of torch, whichever way is taken."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import ops
from regard.ops import largest, log_softmax

WAYS = [one for one in ops.IMPLEMENTATIONS["largest"] if one.unsupported_reason() is None]
each = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
kinds = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def sorted_plainly(row, count, without):
    """Places by falling value, the first of equal ones first."""
    worth = [-math.inf if place == without else value for place, value in enumerate(row)]
    return sorted(range(len(row)), key=lambda place: (-worth[place], place))[:count]


@each
@kinds
@settings(max_examples=60)
@given(
    rows=st.integers(0, 4),
    width=st.sampled_from([1, 2, 5, 31, 32, 33, 64, 70, 200, 333]),
    count=st.integers(1, 9),
    without=st.booleans(),
    levels=st.sampled_from([2, 7, 100000]),
    seed=st.integers(0, 10_000),
)
def test_the_largest_are_those_of_a_stable_sort(way, dtype, rows, width, count, without, levels, seed):
    draw = torch.Generator().manual_seed(seed)
    values = torch.randint(-levels, levels, (rows, width), generator=draw).to(dtype) / 3
    place = int(torch.randint(width, (), generator=draw)) if without else None
    found, places = way.function(values, count, place)
    assert found.dtype == dtype
    assert places.tolist() == [sorted_plainly(row, count, place) for row in values.tolist()]
    expected = values if place is None else values.index_fill(1, torch.tensor(place), -math.inf)
    torch.testing.assert_close(found, expected.gather(1, places), rtol=0, atol=0)


@each
@kinds
@pytest.mark.parametrize("width", [6, 40, 5000])
def test_nan_of_either_sign_is_chosen_and_infinities_have_their_places(way, dtype, width):
    values = torch.zeros(4, width, dtype=dtype)
    values[0, 3], values[1, 5], values[2, 4] = math.nan, -torch.tensor(math.nan, dtype=dtype), math.inf
    values[3] = -math.inf
    values[3, 2] = -7
    found, places = way.function(values, 2)
    assert places[:, 0].tolist() == [3, 5, 4, 2]
    assert found[:2, 0].isnan().all()
    assert found[2:, 0].tolist() == [math.inf, -7]
    assert found[3, 1] == -math.inf


@each
def test_zeros_of_both_signs_are_equal(way):
    values = torch.tensor([[-0.0, 0.0, -0.0, -1.0]])
    assert way.function(values, 3)[1].tolist() == [[0, 1, 2]]


def test_rows_with_gaps_many_threads_and_other_types_are_found_too():
    values = torch.randn(600, 2000)
    expected = [part[:, :5] for part in values[:, ::2].sort(dim=1, descending=True, stable=True)]
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            for found, right in zip(largest(values[:, ::2], 5), expected):
                assert torch.equal(found, right)
    finally:
        torch.set_num_threads(before)
    half = torch.tensor([[3.0, 9, 1, 9]], dtype=torch.float16)
    assert largest(half, 2)[1].tolist() == [[1, 3]]
    assert "float32 and float64" in ops.explain("largest", half, 2)


def test_gradients_pass_through_the_reference():
    values = torch.tensor([[1.0, 5.0, 3.0]], requires_grad=True)
    largest(values, 2)[0].sum().backward()
    assert values.grad.tolist() == [[0, 1, 1]]


@kinds
@pytest.mark.parametrize("shape", [(0, 7), (3, 1), (5, 33), (2, 3, 40), (40, 5000)])
def test_log_probabilities_are_those_of_torch(dtype, shape):
    torch.manual_seed(1)
    logits = 20 * torch.randn(shape, dtype=dtype)
    logits[..., ::7] -= 300
    logits[..., 3::11] = -math.inf
    expected = logits.double().log_softmax(-1)
    near = 3e-7 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(log_softmax(logits).double(), expected, rtol=near, atol=10 * near)


def test_what_has_no_log_probabilities_is_nan():
    rows = torch.zeros(3, 40)
    rows[0], rows[1, 7], rows[2, 9] = -math.inf, math.nan, math.inf
    assert log_softmax(rows).isnan().all()


def test_log_probabilities_with_gradients_keep_them():
    logits = torch.randn(2, 5, requires_grad=True)
    log_softmax(logits)[:, 0].sum().backward()
    assert logits.grad is not None
    assert "gradients" in ops.explain("log_softmax", logits)
