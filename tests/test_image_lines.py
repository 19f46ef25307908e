"""Lines are those of the plainest loops over pixels."""

from __future__ import annotations

import inspect
import math

import pytest
import torch

from regard.errors import RegardError, ShapeError
from regard.image.lines import draw_lines


def drawn_plainly(segments, height, width, pen):
    """Coverage from the definition, pixel by pixel, in double precision."""
    ink = torch.zeros(height, width, dtype=torch.float64)
    for i in range(height):
        for j in range(width):
            x, y = j + 0.5, i + 0.5
            nearest = math.inf
            for x0, y0, x1, y1 in segments.tolist():
                length = math.hypot(x1 - x0, y1 - y0)
                along = ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length if length else 0.0
                if 0 < along < length:
                    distance = abs((x - x0) * (y1 - y0) - (y - y0) * (x1 - x0)) / length
                else:
                    distance = min(math.hypot(x - x0, y - y0), math.hypot(x - x1, y - y1))
                nearest = min(nearest, distance)
            ink[i, j] = min(max(pen / 2 + 0.5 - nearest, 0.0), 1.0)
    return ink


def some_segments(count, height, width, seed=0):
    """Of all lengths and directions, some partly or wholly outside, some points, some along rows and columns."""
    random = torch.Generator().manual_seed(seed)
    ends = torch.rand(count, 4, generator=random, dtype=torch.float64) * 1.6 - 0.3
    ends = ends * torch.tensor([width, height, width, height], dtype=torch.float64)
    ends[::5, 2:] = ends[::5, :2]  # points
    ends[1::5, 3] = ends[1::5, 1]  # along a row
    ends[2::5, 2] = ends[2::5, 0]  # along a column
    ends[3::5, 2:] = ends[3::5, :2] + 0.3  # shorter than a pixel
    return ends


@pytest.mark.parametrize("pen", [0.4, 1.0, 2.0, 5.5])
def test_lines_are_those_of_plain_loops(pen):
    for seed in range(6):
        segments = some_segments(7, 13, 17, seed)
        expected = drawn_plainly(segments, 13, 17, pen)
        torch.testing.assert_close(draw_lines(segments, 13, 17, pen=pen), expected, rtol=0, atol=1e-12)
        found = draw_lines(segments.float(), 13, 17, pen=pen)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-5)


def test_each_single_segment_is_drawn_wherever_it_lies():
    # one segment at a time, so that no other hides a pixel that a kernel has left out
    for segment in some_segments(120, 9, 11, seed=7):
        expected = drawn_plainly(segment[None], 9, 11, 2.0)
        torch.testing.assert_close(draw_lines(segment[None], 9, 11, pen=2.0), expected, rtol=0, atol=1e-12)


def test_neither_order_nor_direction_nor_division_of_lines_shows():
    segments = some_segments(9, 20, 20)
    once = draw_lines(segments, 20, 20, pen=2.0)
    assert torch.equal(draw_lines(segments.flip(0), 20, 20, pen=2.0), once)
    torch.testing.assert_close(draw_lines(segments[:, [2, 3, 0, 1]], 20, 20, pen=2.0), once, rtol=0, atol=1e-12)
    middle = (segments[:, :2] + segments[:, 2:]) / 2
    halves = torch.cat([torch.cat([segments[:, :2], middle], 1), torch.cat([middle, segments[:, 2:]], 1)])
    torch.testing.assert_close(draw_lines(halves, 20, 20, pen=2.0), once, rtol=0, atol=1e-12)


def test_a_line_has_as_much_ink_as_its_pen_is_wide():
    for angle in (0.0, 0.3, 0.8, math.pi / 2):
        end = torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64) * 40
        segment = torch.cat([torch.full((2,), 60.0), 60.0 + end]).double()
        for pen in (2.0, 3.7):
            area = 40 * pen + math.pi * (pen / 2) ** 2  # with its round ends
            assert float(draw_lines(segment[None], 120, 120, pen=pen).sum()) == pytest.approx(area, rel=0.02)


def test_what_is_far_away_or_nothing_leaves_the_paper_white():
    far = torch.tensor([[1e14, 1e14, 9e14, 8e14], [-9.0, -9.0, -5.0, -5.0], [5.0, 40.0, 9.0, 40.0]])
    assert draw_lines(far, 5, 6, pen=2.0).sum() == 0
    assert torch.equal(draw_lines(torch.zeros(0, 4), 2, 3, pen=1.0), torch.zeros(2, 3))
    assert draw_lines(torch.zeros(2, 4), 0, 3, pen=1.0).shape == (0, 3)


def test_a_line_through_a_picture_is_drawn_though_its_ends_are_far():
    segment = torch.tensor([[-1e5, 2.5, 1e5, 2.5]])
    assert draw_lines(segment, 5, 6, pen=1.0)[2].tolist() == [1.0] * 6


def test_what_is_wrong_is_said():
    plain = inspect.unwrap(draw_lines)  # the tests' own checks of shapes would say it first
    with pytest.raises(ShapeError, match=r"segments must be \(segments, 4\)"):
        plain(torch.zeros(3, 5), 4, 4, pen=1.0)
    with pytest.raises(ShapeError, match="real numbers"):
        plain(torch.zeros(3, 4, dtype=torch.long), 4, 4, pen=1.0)
    with pytest.raises(RegardError, match=r"wider than 0 pixels; got pen=0"):
        draw_lines(torch.zeros(1, 4), 4, 4, pen=0.0)
    with pytest.raises(RegardError, match=r"at least 0 rows and columns; got height=-1"):
        draw_lines(torch.zeros(1, 4), -1, 4, pen=1.0)
    with pytest.raises(RegardError, match=r"segment 1 is \[0.0, nan, 0.0, 0.0\]"):
        draw_lines(torch.tensor([[0.0] * 4, [0.0, math.nan, 0.0, 0.0]]), 4, 4, pen=1.0)
    with pytest.raises(RegardError, match=r"finite and within 1e\+15 pixels; segment 0"):
        draw_lines(torch.tensor([[0.0, 0.0, 3e15, 0.0]]), 4, 4, pen=1.0)
