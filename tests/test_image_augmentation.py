"""Random changes of strokes and pictures: what each does, and that they follow from seed, epoch and item."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.errors import RegardError, ShapeError
from regard.image import ImageAugmentation, Rendering, StrokeAugmentation, Strokes, item_generator

LETTERS = Strokes.of([[20 * i, 0, 20 * i + 9, 30, 20 * i + 15, 5] for i in range(6)], text="vvvvvv", place="ink:1")
STRONG = StrokeAugmentation(shift=5, scale=0.3, stretch=0.2, slant=0.3, rotation=8, pen=0.5, elastic=0.06, jitter=0.05)
PAPER = np.full((30, 50, 1), 255, np.uint8)
PAPER[8:22, 10:40] = 0


class Fixed:
    """Random numbers at one end of their range, so that what an option does can be seen."""

    def __init__(self, share=1.0):
        self.share = share

    def uniform(self, low, high, size=None):
        value = low + (high - low) * self.share
        return value if size is None else np.full(size, value)

    def normal(self, mean, deviation, size):
        return np.full(size, mean + deviation)

    def random(self):
        return 0.0


def test_seed_epoch_and_item_decide_alone():
    draws = {
        (seed, epoch, item): item_generator(seed, epoch, item).random(4).tolist()
        for seed in (0, 1, 2**32)
        for epoch in (0, 1)
        for item in (0, 1, 2**40)
    }
    assert len({tuple(draw) for draw in draws.values()}) == len(draws)
    for numbers, draw in draws.items():
        assert item_generator(*numbers).random(4).tolist() == draw
    # the same on every machine and in every version
    assert item_generator(1, 2, 3).integers(0, 1000, 3).tolist() == [925, 89, 40]


def test_a_picture_follows_from_its_generator():
    def drawn(item):
        strokes, rendering = STRONG(LETTERS, Rendering(), item_generator(7, 1, item))
        return rendering.draw(strokes)

    assert np.array_equal(drawn(3), drawn(3))
    assert drawn(3).shape != drawn(4).shape or (drawn(3) != drawn(4)).any()


def test_without_options_nothing_changes():
    strokes, rendering = StrokeAugmentation()(LETTERS, Rendering(), item_generator(0, 0, 0))
    assert rendering == Rendering()
    for line, before in zip(strokes.lines, LETTERS.lines, strict=True):
        np.testing.assert_allclose(line, before, rtol=1e-6, atol=1e-5)
    assert np.array_equal(ImageAugmentation()(PAPER, item_generator(0, 0, 0)), PAPER)


def test_text_place_and_symbols_stay():
    strokes = STRONG.write(LETTERS, item_generator(0, 0, 0))
    assert (strokes.text, strokes.place, strokes.symbols) == (LETTERS.text, LETTERS.place, LETTERS.symbols)


def test_each_option_changes_strokes_as_it_is_described():
    square = Strokes.of([[0, 0, 10, 0, 10, 10, 0, 10]])

    def corners(share=1.0, **options):
        return StrokeAugmentation(**options).write(square, Fixed(share)).lines[0]

    # stretched by 2 about the middle (5, 5)
    np.testing.assert_allclose(corners(stretch=1), [[-5, 2.5], [15, 2.5], [15, 7.5], [-5, 7.5]], atol=1e-5)
    # what is above goes to the right
    np.testing.assert_allclose(corners(slant=0.4), [[2, 0], [12, 0], [8, 10], [-2, 10]], atol=1e-5)
    np.testing.assert_allclose(corners(0.0, slant=0.4), [[-2, 0], [8, 0], [12, 10], [2, 10]], atol=1e-5)
    # a quarter turn takes the right to below, as y points down
    np.testing.assert_allclose(corners(rotation=90), [[10, 0], [10, 10], [0, 10], [0, 0]], atol=1e-5)
    grown = math.exp(0.1)
    moved = 5 + 0.1 * 10 + grown * np.array([[-5, -5], [5, -5], [5, 5], [-5, 5]])
    np.testing.assert_allclose(corners(jitter=0.1), moved, rtol=1e-5)


def test_elastic_moves_points_by_a_share_of_a_symbol_and_near_points_alike():
    across, down = np.meshgrid(np.arange(0, 2000, 5.0), np.arange(0, 100, 5.0))
    grid = np.stack([across, down], -1).reshape(-1, 2)
    strokes = Strokes.of([grid.tolist(), *[[0, 0, 0, 20]] * 8])
    assert strokes.typical_size == 20
    found = [
        StrokeAugmentation(elastic=0.1).write(strokes, item_generator(3, 0, i)).lines[0] - strokes.lines[0]
        for i in range(40)
    ]
    moved = np.stack(found).reshape(40, *across.shape, 2)
    assert moved.std((0, 1, 2)) == pytest.approx(0.1 * 20, rel=0.15)
    # neighbours a quarter of a symbol apart go together; ten symbols apart, each its own way
    near, far = (np.corrcoef(moved[:, :, :-n].ravel(), moved[:, :, n:].ravel())[0, 1] for n in (1, 40))
    assert near > 0.9
    assert abs(far) < 0.2


def test_scale_pen_and_shift_change_how_strokes_are_drawn():
    _, high = StrokeAugmentation(shift=3, scale=0.5, pen=0.25)(LETTERS, Rendering(20, 2, 4), Fixed(1.0))
    assert (high.unit, high.pen, high.margins) == (30, 2.5, (7, 7, 4, 4))
    _, low = StrokeAugmentation(shift=3, scale=0.5, pen=0.25)(LETTERS, Rendering(20, 2, 4), Fixed(0.0))
    assert (low.unit, low.pen, low.margins) == (pytest.approx(20 / 1.5), pytest.approx(1.6), (4, 4, 7, 7))


def test_draws_stay_within_their_ranges():
    units = [STRONG(LETTERS, Rendering(20), item_generator(0, 0, i))[1].unit for i in range(300)]
    assert 20 / 1.3 <= min(units) < 16
    assert 25 < max(units) <= 26


def test_paper_grows_so_that_no_ink_is_lost():
    augmentation = ImageAugmentation(shift=0.3, scale=0.2, slant=0.4, rotation=15)
    for item in range(30):
        found = augmentation(PAPER, item_generator(0, 0, item))
        assert found.dtype == np.uint8
        assert found[0].min() == found[-1].min() == found[:, 0].min() == found[:, -1].min() == 255
        ratio = (255.0 - found).sum() / (255.0 - PAPER).sum()
        assert 0.95 / 1.2**2 <= ratio <= 1.05 * 1.2**2


def test_edges_go_on_and_the_size_stays():
    image = np.zeros((20, 30, 3), np.uint8)
    image[:, :15] = (10, 20, 30)
    augmentation = ImageAugmentation(shift=0.2, scale=0.2, rotation=10, slant=0.2, fill="edge")
    for item in range(10):
        found = augmentation(image, item_generator(0, 0, item))
        assert found.shape == image.shape
        assert found[10, 0].tolist() == [10, 20, 30]
        assert found[10, -1].tolist() == [0, 0, 0]


def test_pictures_move_as_strokes_do():
    image = np.full((21, 21, 1), 255, np.uint8)
    image[2, 10] = 0

    def ink(fill="edge", **options):
        found = ImageAugmentation(**options, fill=fill)(image, Fixed(1.0))
        return np.argwhere(found[..., 0] < 128).tolist()

    assert ink(rotation=90) == [[10, 18]]  # above goes to the right
    assert ink(slant=0.5) == [[2, 14]]
    assert ink(shift=1 / 21) == [[3, 11]]
    assert ink(fill="paper", shift=1 / 21) == [[3, 11]]  # one row and one column more, above and to the left
    assert ImageAugmentation(shift=1 / 21)(image, Fixed(1.0)).shape == (22, 22, 1)
    assert ink(scale=1) == []  # beyond the edge
    assert ink(scale=1, fill="paper") != []
    assert np.argwhere(ImageAugmentation(flip=True)(image[:, :12], Fixed())[..., 0] == 0).tolist() == [[2, 1]]


def test_brightness_and_contrast_are_factors():
    image = np.array([[[100], [200]]], np.uint8)
    assert ImageAugmentation(brightness=0.2)(image, Fixed(1.0)).reshape(-1).tolist() == [120, 240]
    assert ImageAugmentation(brightness=1)(image, Fixed(0.0)).reshape(-1).tolist() == [50, 100]
    assert ImageAugmentation(contrast=1)(image, Fixed(1.0)).reshape(-1).tolist() == [50, 250]
    assert ImageAugmentation(brightness=1)(image, Fixed(1.0)).reshape(-1).tolist() == [200, 255]


def test_left_and_right_are_exchanged_only_if_asked_for():
    image = np.arange(6, dtype=np.uint8).reshape(1, 6, 1)
    seen = {tuple(ImageAugmentation(flip=True)(image, item_generator(0, 0, i)).reshape(-1)) for i in range(20)}
    assert seen == {(0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0)}
    assert not ImageAugmentation().flip


@pytest.mark.parametrize("kind", [StrokeAugmentation, ImageAugmentation])
def test_ranges_are_positive(kind):
    with pytest.raises(RegardError, match=r"slant must be at least 0; got -0\.1"):
        kind(slant=-0.1)
    with pytest.raises(RegardError, match="scale must be at least 0; got nan"):
        kind(scale=math.nan)


def test_what_is_no_picture_is_refused():
    with pytest.raises(RegardError, match="fill must be paper or edge; got 'black'"):
        ImageAugmentation(fill="black")
    with pytest.raises(ShapeError, match=r"expected a picture, \(H, W, C\) uint8; got \(3, 4\)"):
        ImageAugmentation()(np.zeros((3, 4), np.uint8), item_generator(0, 0, 0))
