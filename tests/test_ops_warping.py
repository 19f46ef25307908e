"""Dynamic time warping is that of the plainest loops, whichever implementation is taken."""

import inspect
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import ops
from regard.errors import ShapeError
from regard.ops import warping_path
from regard.ops.warping import reference

WAYS = [one for one in ops.IMPLEMENTATIONS["warping_path"] if one.unsupported_reason() is None]
each = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)


def warped_plainly(costs):
    """D by its definition, and back by the first of equal moves."""
    rows, columns = len(costs), len(costs[0])
    best = {}
    for t, u in itertools.product(range(rows), range(columns)):
        before = [best.get(at, (math.inf, None))[0] for at in ((t - 1, u - 1), (t - 1, u), (t, u - 1))]
        move = before.index(min(before))
        best[t, u] = (costs[t][u] + (before[move] if (t, u) != (0, 0) else 0), move)
    path, (t, u) = [], (rows - 1, columns - 1)
    while True:
        path.append([t, u])
        if (t, u) == (0, 0):
            return path[::-1]
        move = best[t, u][1]
        t, u = t - (move != 2), u - (move != 1)


def all_paths(rows, columns):
    if rows == 1 and columns == 1:
        return [[(0, 0)]]
    found = []
    for a, b in ((1, 1), (1, 0), (0, 1)):
        if rows - a >= 1 and columns - b >= 1:
            found += [[*path, (rows - 1, columns - 1)] for path in all_paths(rows - a, columns - b)]
    return found


def cost_of(costs, path):
    return sum(float(costs[t][u]) for t, u in path)


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=4), seed=st.integers(0, 999)
)
def test_paths_of_a_padded_batch_are_those_of_plain_loops(way, dtype, sizes, seed):
    # few levels, so that many moves are equal, and sums that are exact
    draw = torch.Generator().manual_seed(seed)
    costs = torch.randint(0, 4, (len(sizes), 12, 12), generator=draw).to(dtype)
    lengths, others = (torch.tensor(part) for part in zip(*sizes, strict=True))
    for row, (t, u) in enumerate(sizes):
        costs[row, t:] = math.nan
        costs[row, :, u:] = math.nan
    path, counts = way.function(costs, lengths, others)
    assert path.shape == (len(sizes), 23, 2)
    for row, (t, u) in enumerate(sizes):
        assert path[row, : counts[row]].tolist() == warped_plainly(costs[row, :t, :u].tolist())
        assert (path[row, counts[row] :] == -1).all()


@each
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4), (4, 1), (3, 4), (5, 4)])
def test_the_path_is_the_cheapest_of_all(way, rows, columns):
    costs = torch.randn(3, rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(rows)).abs()
    path, counts = way.function(costs, torch.full((3,), rows), torch.full((3,), columns))
    for row in range(3):
        best = min(cost_of(costs[row], one) for one in all_paths(rows, columns))
        assert cost_of(costs[row], path[row, : counts[row]].tolist()) == pytest.approx(best)


def test_long_sequences_on_several_threads_are_those_of_the_reference():
    costs = torch.rand(6, 150, 170)
    lengths = torch.tensor([150, 20, 140, 150, 1, 77])
    expected = reference(costs, lengths, torch.full((6,), 170))
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            for found, right in zip(warping_path(costs, lengths), expected, strict=True):
                assert torch.equal(found, right)
    finally:
        torch.set_num_threads(before)


def test_half_types_and_no_sequences_are_taken_too():
    costs = torch.tensor([[[0.0, 2.0], [0.0, 1.0]]], dtype=torch.float16, requires_grad=True)
    assert warping_path(costs)[0][0].tolist() == [[0, 0], [1, 1], [-1, -1]]
    path, counts = warping_path(torch.zeros(0, 3, 4))
    assert path.shape == (0, 6, 2)
    assert counts.shape == (0,)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lengths": torch.tensor([0])}, "lengths must lie between 1 and T=2; got 0"),
        ({"lengths": torch.tensor([3])}, "lengths must lie between 1 and T=2; got 3"),
        ({"other_lengths": torch.tensor([4])}, "other_lengths must lie between 1 and U=3; got 4"),
        ({"lengths": torch.tensor([1.0])}, r"lengths must be \(B,\) integers"),
        ({"other_lengths": torch.tensor([1, 1])}, r"other_lengths must be \(B,\) integers"),
    ],
)
def test_lengths_fit_the_costs(options, said):
    unchecked = inspect.unwrap(warping_path)  # the tests' own checks of shapes would say it first
    with pytest.raises(ShapeError, match=said):
        unchecked(torch.zeros(1, 2, 3), **options)
    with pytest.raises(ShapeError, match="costs must be"):
        unchecked(torch.zeros(2, 3))
