"""Pictures in files: what is read of every kind, and what every damage is called."""

from __future__ import annotations

import struct
import threading
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

from regard.errors import DataError, RegardError
from regard.image import image_size, read_image

Image = pytest.importorskip("PIL.Image", reason="pictures are read by Pillow")
RGB = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
GREY = RGB[..., 0]


def saved(path: Path, pixels=RGB, mode=None, **options) -> Path:
    picture = Image.fromarray(pixels)
    (picture if mode is None else picture.convert(mode)).save(path, **options)
    return path


def png(path: Path, width: int, height: int) -> Path:
    """A file whose header promises so many pixels, with hardly any behind it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def test_colours_and_greys_are_those_of_the_file(tmp_path):
    colours = saved(tmp_path / "colours.png")
    assert np.array_equal(read_image(colours, colour="rgb"), RGB)
    luma = RGB @ np.array([0.299, 0.587, 0.114])
    found = read_image(colours)
    assert found.shape == (20, 30, 1)
    assert found.dtype == np.uint8
    assert np.abs(found[..., 0] - luma).max() <= 1
    greys = saved(tmp_path / "greys.png", GREY)
    assert np.array_equal(read_image(str(greys))[..., 0], GREY)
    assert np.array_equal(read_image(greys, colour="rgb"), np.repeat(GREY[..., None], 3, axis=2))


def test_a_picture_can_be_written_into(tmp_path):
    read_image(saved(tmp_path / "a.png"))[0, 0] = 3


def test_a_single_pixel_and_thirty_thousand_columns_are_pictures(tmp_path):
    assert read_image(saved(tmp_path / "one.png", GREY[:1, :1])).tolist() == [[[int(GREY[0, 0])]]]
    assert read_image(saved(tmp_path / "wide.png", np.full((3, 30_000), 9, np.uint8))).shape == (3, 30_000, 1)


@pytest.mark.parametrize("name", ["wide.png", "wide.tif", "wide.pgm"])
def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path, name):
    wide = np.array([[0, 128, 129, 257, 32896], [65535, 65406, 65407, 1000, 300]], np.uint16)
    path = tmp_path / name
    if name.endswith("pgm"):
        path.write_bytes(b"P5 5 2 65535\n" + wide.astype(">u2").tobytes())
    else:
        saved(path, wide)
    assert read_image(path)[..., 0].tolist() == [[0, 0, 1, 1, 128], [255, 254, 255, 4, 1]]
    assert read_image(path, colour="rgb").shape == (2, 5, 3)


def test_cmyk_palettes_and_two_levels_become_colours(tmp_path):
    flat = np.full((8, 8, 3), (200, 40, 90), np.uint8)
    cmyk = read_image(saved(tmp_path / "cmyk.jpg", flat, "CMYK", quality=98), colour="rgb")
    assert np.abs(cmyk.astype(int) - flat).max() < 8
    palette = read_image(saved(tmp_path / "palette.png", flat, "P"), colour="rgb")
    assert np.abs(palette.mean((0, 1)) - flat[0, 0]).max() < 20  # Pillow's palette of 216 colours, mixed by dots
    levels = read_image(saved(tmp_path / "levels.png", np.array([[0, 255]], np.uint8), "1"))
    assert levels.tolist() == [[[0], [255]]]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
def test_what_is_transparent_lies_on_white_paper(tmp_path, mode):
    ink = np.zeros((1, 3, 4), np.uint8)
    ink[0, :, 3] = [0, 128, 255]
    found = read_image(saved(tmp_path / "ink.png" if mode != "PA" else tmp_path / "ink.tif", ink, mode)).reshape(-1)
    assert found[0] == 255
    assert abs(int(found[1]) - 127) <= 1
    assert found[2] == 0


def test_a_colour_that_stands_for_transparent_is_white(tmp_path):
    path = saved(tmp_path / "key.png", np.array([[0, 7, 200]], np.uint8), transparency=7)
    assert read_image(path).reshape(-1).tolist() == [0, 255, 200]
    palette = Image.fromarray(np.array([[0, 1]], np.uint8), "P")
    palette.putpalette([10, 10, 10, 20, 20, 20])
    palette.save(tmp_path / "palette.gif", transparency=1)
    assert read_image(tmp_path / "palette.gif").reshape(-1).tolist() == [10, 255]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_a_photograph_stands_upright(tmp_path, orientation, suffix):
    upright = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    # how a camera that is held so stores it: the inverse of what readers do
    held = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: upright.T, 6: np.rot90(upright, 1), 7: np.rot90(upright, 2).T, 8: np.rot90(upright, -1),
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / f"held.{suffix}", np.ascontiguousarray(held), exif=exif)
    assert read_image(path)[..., 0].tolist() == upright.tolist()
    assert image_size(path) == (2, 3)


def test_of_an_animation_the_first_picture_is_read_and_that_is_said(tmp_path):
    later = [Image.fromarray(255 - GREY), Image.fromarray(GREY // 2)]
    path = saved(tmp_path / "film.gif", GREY, save_all=True, append_images=later)
    with pytest.warns(UserWarning, match=r"film.gif: 3 pictures in one file, an animation or pages; the first is read"):
        first = read_image(path)
    assert np.array_equal(first[..., 0], GREY)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_image(path, report=said.append)
    assert len(said) == 1


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "tif", "bmp"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9])
def test_a_truncated_file_is_named(tmp_path, suffix, share):
    whole = saved(tmp_path / f"whole.{suffix}").read_bytes()
    path = tmp_path / f"cut.{suffix}"
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DataError, match=rf"^{path}: "):
        read_image(path)


def test_damaged_bytes_give_a_picture_or_an_error_that_names_the_file(tmp_path):
    random = np.random.default_rng(1)
    for suffix in ("png", "jpg", "gif", "tif"):
        whole = saved(tmp_path / f"whole.{suffix}").read_bytes()
        path = tmp_path / f"damaged.{suffix}"
        for _ in range(60):
            damaged = np.frombuffer(whole, np.uint8).copy()
            damaged[random.integers(0, len(damaged), 3)] = random.integers(0, 256, 3)
            path.write_bytes(damaged.tobytes())
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                refused = ""
                try:
                    image_size(path)
                    read_image(path, report=lambda text: None)
                except DataError as error:
                    refused = str(error)
                assert not refused or str(path) in refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"a cat\nsits on\n" * 100, "text, not a picture; it begins with 'a cat sits on a cat"),
        ("é".encode() * 600, "text, not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG, a drawing without pixels"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"PK\x03\x04" + bytes(50), "a compressed file; unpack it first"),
        (bytes(range(256)) * 4, "in no format of Pillow"),
    ],
)
def test_a_file_that_is_no_picture_is_called_what_it_is(tmp_path, content, message):
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    for read in (read_image, image_size):
        with pytest.raises(DataError, match=rf"picture.png: .*{message}"):
            read(path)


def test_missing_files_and_folders_are_named(tmp_path):
    for read in (read_image, image_size):
        with pytest.raises(DataError, match=r"a.png: no such file.$"):
            read(tmp_path / "a.png")
        with pytest.raises(DataError, match=r"b/a.png: no such file. the folder .*b does not exist"):
            read(tmp_path / "b" / "a.png")
        with pytest.raises(DataError, match=r"is a folder; expected the file of a picture"):
            read(tmp_path)


def test_a_bomb_of_pixels_is_never_decoded(tmp_path):
    with pytest.raises(DataError, match=r"10,000 × 6,000 pixels are more than max_pixels=50,000,000"):
        read_image(png(tmp_path / "large.png", 10_000, 6_000))
    with pytest.raises(DataError, match=r"huge.png: 3,600,000,000 pixels are more than Pillow decodes"):
        read_image(png(tmp_path / "huge.png", 60_000, 60_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of this size Pillow warns
        with pytest.raises(DataError, match=r"more than max_pixels"):
            read_image(png(tmp_path / "warned.png", 10_000, 9_500))
        assert image_size(tmp_path / "warned.png") == (9_500, 10_000)
    with pytest.raises(DataError, match=r"30 × 20 pixels are more than max_pixels=599"):
        read_image(saved(tmp_path / "small.png"), max_pixels=599)
    assert read_image(tmp_path / "small.png", max_pixels=600).shape == (20, 30, 1)


def test_numbers_without_a_white_are_refused(tmp_path):
    path = saved(tmp_path / "real.tif", np.ones((2, 2), np.float32))
    with pytest.raises(DataError, match=r"real.tif: its pixels are floating-point numbers with unknown white"):
        read_image(path)
    path = saved(tmp_path / "whole.tif", np.ones((2, 2), np.int32))
    with pytest.raises(DataError, match=r"whole.tif: its pixels are 32-bit integers"):
        read_image(path)
    with pytest.raises(RegardError, match=r"colour must be 'grey' or 'rgb'; got 'bgr'"):
        read_image(path, colour="bgr")


def test_reading_in_threads_leaves_the_filters_of_warnings_as_they_were(tmp_path):
    path = png(tmp_path / "warned.png", 10_000, 9_500)
    before = list(warnings.filters)
    threads = [threading.Thread(target=lambda: [image_size(path) for _ in range(50)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before
