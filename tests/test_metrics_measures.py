"""Numbers about an alignment, each against a value computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard import metrics
from regard.errors import RegardError, ShapeError

MEASURES = [
    metrics.focus_rate,
    metrics.diagonality,
    metrics.coverage,
    metrics.soft_coverage,
    metrics.monotonicity,
    metrics.entropy,
    metrics.normalised_entropy,
    metrics.skips,
    metrics.repeats,
]
each_measure = pytest.mark.parametrize("measure", MEASURES, ids=lambda m: m.__name__)


def path(*positions: int, size: int) -> np.ndarray:
    """A hard alignment that looks at the given positions."""
    return np.eye(size)[list(positions)]


def test_focus_rate_is_the_mean_of_the_largest_weights_as_they_are():
    assert metrics.focus_rate([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]) == pytest.approx(0.55)
    assert metrics.focus_rate([[0.2, 0.1], [0.0, 0.0]]) == pytest.approx(0.1)
    assert metrics.focus_rate(np.full((3, 5), 0.2)) == pytest.approx(0.2)


def test_diagonality_of_two_by_two_is_linear_in_the_weight_on_the_diagonal():
    # Off the diagonal |x - y| is 1/2, beyond half a cell 1/4; uniform has D = 1/8. So 1 - 8·(0.2/4 + 0.4/4)/2 = 0.4.
    assert metrics.diagonality([[0.8, 0.2], [0.4, 0.6]]) == pytest.approx(0.4)


def test_diagonality_of_a_shifted_path_counts_distance_beyond_half_a_cell():
    # T = S = 3: four cells are one off and cost 1/3 - 1/6, two are two off and cost 2/3 - 1/6.
    uniform = (4 * (1 / 6) + 2 * (1 / 2)) / 9
    assert metrics.diagonality(path(1, 2, 2, size=3)) == pytest.approx(1 - (2 * (1 / 6) / 3) / uniform)
    assert metrics.diagonality(path(2, 1, 0, size=3)) == pytest.approx(1 - (2 * (1 / 2) / 3) / uniform)


def test_an_even_staircase_through_a_matrix_that_is_not_square_is_on_the_diagonal():
    assert metrics.diagonality(path(0, 0, 1, 1, 1, 2, 2, size=3)) == 1
    assert metrics.diagonality(path(0, 0, 0, 1, 1, 2, 2, size=3)) < 1


def test_spreading_over_its_own_stretch_of_a_longer_source_is_on_the_diagonal():
    assert metrics.diagonality(np.kron(np.eye(2), np.full((1, 3), 1 / 3))) == pytest.approx(1)


def test_diagonality_normalises_rows_and_takes_a_row_without_weight_as_uniform():
    assert metrics.diagonality(np.eye(4) * 1e-3) == pytest.approx(1)
    assert metrics.diagonality(np.zeros((4, 6))) == pytest.approx(0)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
def test_a_line_of_one_cell_has_no_direction_to_miss(shape):
    assert metrics.diagonality(np.full(shape, 0.2)) == 1


def test_coverage_counts_positions_at_or_above_the_threshold():
    a = [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]
    assert metrics.coverage(a) == 1
    assert metrics.coverage(a, threshold=0.75) == pytest.approx(1 / 3)
    assert metrics.soft_coverage([[1.0, 0.0], [0.75, 0.25]]) == pytest.approx((1 + 0.25) / 2)


def test_monotonicity_is_the_share_of_moves_that_do_not_go_back():
    assert metrics.monotonicity(path(0, 1, 1, 0, 2, size=3)) == pytest.approx(3 / 4)
    assert metrics.monotonicity(path(2, 1, 0, size=3)) == 0
    assert metrics.monotonicity(path(2, size=3)) == 1


def test_steps_without_weight_are_passed_over_by_the_path():
    a = path(1, 0, 0, size=2)
    a[1] = 0
    assert metrics.monotonicity(a) == 0
    assert metrics.repeats(np.array([[1, 0], [0, 0], [1, 0]])) == 0
    assert math.isnan(metrics.monotonicity(np.zeros((3, 2))))


def test_entropy_is_that_of_the_normalised_rows_in_nats():
    assert metrics.entropy([[0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]]) == pytest.approx(1.5 * math.log(2))
    assert metrics.normalised_entropy([[0.1, 0.1, 0, 0], [0, 0, 0, 0]]) == pytest.approx(0.75)
    assert metrics.normalised_entropy([[0.3], [0.9]]) == 0


@pytest.mark.parametrize(
    ("positions", "skips", "repeats"),
    [
        ((0, 1, 2, 3), 0, 0),
        ((0, 2, 3), 1, 0),
        ((1, 2), 1, 0),  # entered behind position 0
        ((0, 3, 1, 2), 0, 0),  # reordered, nothing left out
        ((0, 1, 0, 1), 0, 2),
        ((0, 1, 0, 1, 0), 0, 2),
        ((3, 3, 3), 3, 0),
    ],
)
def test_skips_and_repeats_of_a_path(positions, skips, repeats):
    a = path(*positions, size=5)
    assert (metrics.skips(a), metrics.repeats(a)) == (skips, repeats)


def test_a_stay_that_is_too_long_counts_as_a_repeat_once():
    a = path(0, 0, 0, 1, 0, 2, 2, size=3)
    assert metrics.repeats(a) == 1
    assert metrics.repeats(a, longest_stay=2) == 1
    assert metrics.repeats(a, longest_stay=1) == 2


@pytest.mark.parametrize(("shape", "covered"), [((0, 3), 0.0), ((3, 0), None), ((0, 0), None)])
def test_an_empty_alignment_has_counts_of_zero_and_no_means(shape, covered):
    found = metrics.summary(np.zeros(shape))
    assert (found.skips, found.repeats) == (0, 0)
    unknown = [found.focus_rate, found.diagonality, found.monotonicity, found.entropy, found.normalised_entropy]
    assert all(math.isnan(value) for value in unknown)
    for value in (found.coverage, found.soft_coverage):
        assert math.isnan(value) if covered is None else value == covered


@each_measure
def test_leading_axes_are_measured_one_by_one_with_lengths_for_the_first_of_them(measure):
    a = torch.rand(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    found = measure(a, source_length=[4, 2], target_length=torch.tensor([3, 5]))
    alone = [[measure(a[b, h, :t, :s]) for h in range(3)] for b, (t, s) in enumerate([(3, 4), (5, 2)])]
    np.testing.assert_array_equal(found, alone)
    assert found.shape == (2, 3)


@each_measure
def test_a_mask_with_holes_is_the_matrix_without_them(measure):
    a = np.random.default_rng(0).random((4, 5))
    keep = np.array([True, False, True, True, False])
    assert measure(a, source_mask=keep, target_mask=keep[:4]) == measure(a[keep[:4]][:, keep])


def test_what_stands_in_the_padding_does_not_matter():
    a = torch.full((3, 3), float("nan"))
    a[:2, :2] = torch.eye(2)
    assert metrics.focus_rate(a, source_length=2, target_length=2) == 1


def test_half_precision_and_gradients_are_no_obstacle():
    a = torch.eye(3, dtype=torch.bfloat16).requires_grad_()
    assert metrics.diagonality(a) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"alignment": [0.5, 0.5]}, r"axes \(T, S\).*\(2,\)"),
        ({"source_length": 3, "source_mask": [True] * 2}, "source_length or source_mask, not both"),
        ({"source_length": 3}, r"source_length must be integers between 0 and 2; got 3"),
        ({"target_length": 1.5}, "target_length must be integers"),
        ({"source_length": [1, 2, 2]}, r"first leading axes[\s\S]*\(2,\), got \(3,\)"),
        ({"target_mask": [1, 0]}, r"target_mask must be \(..., 2\) bool.*int64"),
    ],
)
def test_padding_that_does_not_fit_is_refused_with_what_came(arguments, text):
    arguments = {"alignment": np.ones((2, 2, 2)), **arguments}
    with pytest.raises(ShapeError, match=text):
        metrics.focus_rate(**arguments)


def test_weights_that_are_not_weights_are_refused_with_their_place():
    with pytest.raises(RegardError, match=r"\[1\] has nan at target step 0, source position 1"):
        metrics.entropy([[[1.0, 0.0]], [[1.0, math.nan]]])
    with pytest.raises(RegardError, match=r"has -0.5 at target step 0, source position 0"):
        metrics.coverage([[-0.5, 1.5]])


def test_the_summary_holds_every_measure_and_says_them_in_one_line():
    a = [[0.9, 0.1, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    found = metrics.summary(a, threshold=0.05, longest_stay=1)
    assert found.skips == 1
    assert found.repeats == 1
    assert found.coverage == 1
    for measure in (metrics.focus_rate, metrics.diagonality, metrics.soft_coverage, metrics.entropy):
        assert getattr(found, measure.__name__) == measure(a)
    assert "skips 1" in found.text
    assert "\n" not in found.text


def test_the_mean_of_a_batch_leaves_out_items_without_anything_to_measure():
    found = metrics.summary(np.stack([np.eye(2), np.eye(2)[::-1], np.zeros((2, 2))]), source_length=[2, 2, 0])
    assert found.mean().monotonicity == pytest.approx(0.5)
    assert found.text.startswith("mean of 3: focus 1.00")
    assert metrics.summary(np.zeros((0, 2, 2))).text == "no alignments"
