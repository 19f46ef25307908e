"""What holds for every alignment: ranges, added padding, permutation matrices."""

from __future__ import annotations

import math
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard import metrics

sizes = st.integers(1, 7)
weights = st.floats(0, 1, width=32)
alignments = st.tuples(sizes, sizes).flatmap(lambda shape: arrays(np.float64, shape, elements=weights))
permutations = sizes.flatmap(lambda size: st.permutations(range(size)))


@given(alignments)
def test_measures_stay_in_their_ranges(a):
    found, (steps, positions) = metrics.summary(a), a.shape
    for share in (found.focus_rate, found.coverage, found.soft_coverage, found.normalised_entropy):
        assert 0 <= share <= 1 + 1e-9
    assert found.diagonality <= 1
    assert 0 <= found.entropy <= math.log(positions) + 1e-9
    assert math.isnan(found.monotonicity) == (not a.any())
    assert a.any() <= (found.monotonicity >= 0 and found.monotonicity <= 1)
    assert 0 <= found.skips < positions
    assert 0 <= found.repeats <= min(positions, steps // 2)


@given(alignments, st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.0, 1.0, math.nan, math.inf]))
def test_added_padding_changes_nothing(a, more_steps, more_positions, fill):
    steps, positions = a.shape
    padded = np.pad(a, ((0, more_steps), (0, more_positions)), constant_values=fill)
    by_length = metrics.summary(padded, source_length=positions, target_length=steps)
    by_mask = metrics.summary(
        padded,
        source_mask=np.arange(positions + more_positions) < positions,
        target_mask=np.arange(steps + more_steps) < steps,
    )
    np.testing.assert_equal(asdict(by_length), asdict(metrics.summary(a)))
    np.testing.assert_equal(asdict(by_mask), asdict(metrics.summary(a)))


@given(alignments, st.sampled_from([2.0**-20, 0.5, 4.0]))
def test_scale_matters_to_focus_and_coverage_alone(a, scale):
    found, scaled = metrics.summary(a), metrics.summary(a * scale)
    for name in ("diagonality", "monotonicity", "entropy", "skips", "repeats"):
        assert getattr(scaled, name) == pytest.approx(getattr(found, name), nan_ok=True, abs=1e-9)
    assert scaled.focus_rate == pytest.approx(found.focus_rate * scale)


@given(permutations)
def test_a_permutation_matrix_focuses_covers_and_neither_skips_nor_repeats(order):
    found = metrics.summary(np.eye(len(order))[order])
    assert (found.focus_rate, found.coverage, found.soft_coverage, found.entropy) == (1, 1, 1, 0)
    assert (found.skips, found.repeats) == (0, 0)
    descents = sum(b < a for a, b in pairwise(order))
    assert found.monotonicity == pytest.approx(1 - descents / max(1, len(order) - 1))
    assert (found.diagonality == pytest.approx(1)) == (order == sorted(order))
