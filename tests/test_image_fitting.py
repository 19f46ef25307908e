"""How pictures are brought into a network's sizes, and into batches."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import DataError, RegardError, ShapeError
from regard.image import IMAGENET_MEAN, IMAGENET_STD, Fitting, Frame, pad_images, resize

RANDOM = np.random.default_rng(0)


def picture(height, width, channels=1):
    return RANDOM.integers(0, 256, (height, width, channels), dtype=np.uint8)


def resized_plainly(image, height, width):
    """Weights from the definition, one row and one column after the other."""

    def weights(old, new):
        scale = old / new
        table = np.zeros((new, old))
        for i in range(new):
            for j in range(old):
                table[i, j] = max(0.0, 1 - abs((j + 0.5) - (i + 0.5) * scale) / max(scale, 1.0))
            table[i] /= table[i].sum()
        return table

    rows, columns = weights(image.shape[0], height), weights(image.shape[1], width)
    return np.einsum("ij,jkc,lk->ilc", rows, image.astype(np.float64), columns)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(5, 7), (20, 9), (31, 64), (1, 1), (13, 40)])
def test_other_sizes_are_means_by_the_definition(size, channels):
    image = picture(13, 40, channels)
    found = resize(image, *size)
    assert found.dtype == np.uint8
    assert found.shape == (*size, channels)
    # rows and columns are each rounded to bytes
    assert np.abs(found - resized_plainly(image, *size)).max() <= 1.51


def test_a_thin_line_is_not_lost_when_a_picture_becomes_much_smaller():
    image = np.full((400, 400, 1), 255, np.uint8)
    image[200] = 0
    small = resize(image, 40, 40)
    assert (255.0 - small).sum(0).mean() == pytest.approx(25.5, abs=1.5)


def test_pictures_become_smaller_and_never_larger():
    fitting = Fitting(max_height=50, max_width=200, max_pixels=6_000)
    assert fitting.sizes(10, 10) == (10, 10)
    assert fitting.sizes(100, 100) == (50, 50)
    assert fitting.sizes(50, 400) == (25, 200)
    assert fitting.sizes(60, 200) == (42, 141)
    assert fitting.sizes(3, 30_000) == (1, 200)


@pytest.mark.parametrize("seed", range(5))
def test_limits_are_kept_and_aspects_too(seed):
    random = np.random.default_rng(seed)
    for _ in range(300):
        limits = [int(n) for n in random.integers(1, 300, 3)]
        fitting = Fitting(max_height=limits[0], max_width=limits[1], max_pixels=limits[2] * 10)
        height, width = (int(n) for n in np.exp(random.uniform(0, 10, 2)))
        new_height, new_width = fitting.sizes(height, width)
        assert 1 <= new_height <= min(height, limits[0])
        assert 1 <= new_width <= min(width, limits[1])
        assert new_height * new_width <= 10 * limits[2]
        scale = min(1, limits[0] / height, limits[1] / width, (10 * limits[2] / (height * width)) ** 0.5)
        if min(height, width) * scale >= 1:
            assert abs(new_height - height * scale) <= 1
            assert abs(new_width - width * scale) <= 1


def test_small_pictures_are_refused_or_padded():
    refusing = Fitting(min_height=16, min_width=8, max_width=100)
    with pytest.raises(DataError, match=r"a.tsv:3: a picture of 1 × 1 pixels .* too small: at least 16 × 8 are needed"):
        refusing(picture(1, 1), place="a.tsv:3")
    with pytest.raises(DataError, match=r"50 × 1000 pixels \(height × width\), scaled to 5 × 100, is too small"):
        refusing.sizes(50, 1000)
    padding = Fitting(min_height=16, min_width=8, small="pad", invert=True)
    found = padding(np.zeros((3, 20, 1), np.uint8))
    assert found.shape == (1, 16, 20)
    assert found[:, :3].min() == 1
    assert found[:, 3:].max() == 0
    assert padding.frame(3, 2) == Frame(16, 8, 3, 2)


def test_one_size_is_reached_by_padding_stretching_or_cropping():
    image = np.zeros((10, 40, 1), np.uint8)
    image[:, :20] = 255
    stretched = Fitting(size=(20, 20), fit="stretch")(image)
    assert stretched.shape == (1, 20, 20)
    assert stretched[0, :, :9].min() == 1
    assert stretched[0, :, 11:].max() == 0
    padded = Fitting(size=(20, 20), fit="pad")
    assert padded.frame(10, 40) == Frame(20, 20, 5, 20, 7, 0)
    ink = padded(image)
    assert ink[0, 7:12, :9].min() == 1
    assert ink[0, :7].max() == ink[0, 12:].max() == 0
    cropped = Fitting(size=(20, 20), fit="crop")
    assert cropped.frame(10, 40) == Frame(20, 20, 20, 80, 0, -30)
    assert cropped(image)[0, :, :9].min() == 1
    assert cropped(image)[0, :, 11:].max() == 0
    assert Fitting(size=(4, 6))(picture(300, 2)).shape == (1, 4, 6)
    assert Fitting(size=(4, 6), fit="crop")(picture(2, 300)).shape == (1, 4, 6)


def test_values_are_as_the_options_say():
    grey = np.array([[[0], [51], [255]]], np.uint8)
    assert Fitting()(grey).tolist() == [[[0, pytest.approx(0.2), 1]]]
    assert Fitting(invert=True)(grey).tolist() == [[[1, pytest.approx(0.8), 0]]]
    assert Fitting(mean=(0.5,), std=(0.25,))(grey).tolist() == [[[-2, pytest.approx(-1.2), 2]]]
    colours = picture(4, 5, 3)
    found = Fitting(colour="rgb", mean=IMAGENET_MEAN, std=IMAGENET_STD)(colours)
    expected = (colours / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    np.testing.assert_allclose(found, expected.transpose(2, 0, 1), rtol=1e-6, atol=1e-6)
    assert found.dtype == np.float32


def test_colours_become_grey_and_grey_becomes_colours():
    colours = picture(4, 5, 3)
    luma = (colours @ np.array([0.299, 0.587, 0.114])) / 255
    assert np.abs(Fitting()(colours)[0] - luma).max() <= 0.51 / 255
    grey = picture(4, 5)
    assert np.array_equal(Fitting(colour="rgb")(grey), np.repeat(Fitting()(grey), 3, axis=0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "bgr"}, "colour must be one of grey, rgb; got 'bgr'"),
        ({"size": (4, 4), "fit": "zoom"}, "fit must be one of"),
        ({"fit": "crop"}, "fit='crop' has no effect without size"),
        ({"small": "enlarge"}, "small must be refuse or pad"),
        ({"max_height": 0}, "max_height must be at least 1; got 0"),
        ({"size": (0, 4)}, r"size\[0\] must be at least 1"),
        ({"max_width": 7, "min_width": 8}, "max_width=7 is below min_width=8"),
        ({"max_pixels": 7, "min_width": 8}, r"max_pixels=7 is below min_height · min_width = 8"),
        ({"size": (4, 4), "max_width": 9}, r"size=\(4, 4\) is that of all pictures; leave out max_width=9"),
        ({"size": (4, 4), "min_width": 9}, "leave out min_width=9"),
        ({"mean": (0.1, 0.2, 0.3)}, "mean needs 1 numbers for grey"),
        ({"colour": "rgb", "std": (0.1, 0.2)}, "std needs 3 numbers for rgb"),
        ({"std": (0.0,)}, "std must be above 0"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(RegardError, match=message):
        Fitting(**options)


@pytest.mark.parametrize("image", [np.zeros((3, 4), np.uint8), np.zeros((3, 4, 2), np.uint8), np.zeros((3, 4, 1))])
def test_what_is_no_picture_is_refused(image):
    with pytest.raises(ShapeError, match=r"a.png: expected a picture, \(H, W, 1\) or \(H, W, 3\) uint8; got"):
        Fitting()(image, place="a.png")


def test_a_picture_without_pixels_is_refused():
    with pytest.raises(DataError, match="the picture has no pixels: 0 × 4"):
        Fitting()(np.zeros((0, 4, 1), np.uint8))


def test_batches_are_padded_with_zeros_and_the_mask_says_where():
    images = [np.full((2, height, width), 7, np.float32) for height, width in ((3, 5), (4, 2), (1, 1))]
    batch, mask = pad_images(images, multiple=4)
    assert batch.shape == (3, 2, 4, 8)
    assert batch.dtype == np.float32
    assert mask.dtype == np.bool_
    for row, image in enumerate(images):
        real = np.zeros((4, 8), bool)
        real[: image.shape[1], : image.shape[2]] = True
        assert np.array_equal(mask[row], real)
        assert np.array_equal(batch[row], np.broadcast_to(7 * real, (2, 4, 8)))
    assert pad_images(images)[0].shape == (3, 2, 4, 5)


def test_pictures_of_different_channels_are_no_batch():
    with pytest.raises(ShapeError, match=r"of the same C; got \[\(1, 2, 2\), \(3, 2, 2\)\]"):
        pad_images([np.zeros((1, 2, 2), np.float32), np.zeros((3, 2, 2), np.float32)])
    with pytest.raises(ShapeError, match="expected pictures"):
        pad_images([])
