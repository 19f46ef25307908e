"""Drawn pictures: what they show by looking at their pixels, their captions, boxes and files."""

from __future__ import annotations

import json
from collections import Counter

import matplotlib.image
import numpy as np
import pytest
from scipy import ndimage
from typer.testing import CliRunner

from regard.cli.data import application
from regard.data.pictures import read_boxes, synthetic_picture, write_synthetic_pictures
from regard.data.pictures.synthetic import COLOURS, NUMBERS, PLACES, SHAPES, SIZE
from regard.errors import DataError, RegardError

PICTURES = [synthetic_picture(np.random.default_rng((7, number))) for number in range(150)]
SINGULAR = {shape: shape for shape in SHAPES} | {f"{shape}s": shape for shape in SHAPES} | {"crosses": "cross"}


def seen(image):
    """What pixels show: for each connected part its box, quadrant, colour and centre, in the order of reading."""
    ink = (image != 255).any(2)
    labels, count = ndimage.label(ink, np.ones((3, 3)))
    parts = []
    for number, (rows, columns) in enumerate(ndimage.find_objects(labels), start=1):
        colour = np.median(image[labels == number].reshape(-1, 3), axis=0)
        nearest = min(COLOURS, key=lambda name: np.abs(colour - COLOURS[name]).sum())
        quadrant = rows.start // 32 * 2 + columns.start // 32
        assert rows.start // 32 == (rows.stop - 1) // 32
        assert columns.start // 32 == (columns.stop - 1) // 32
        parts.append((quadrant, nearest, (columns.start, rows.start, columns.stop, rows.stop)))
    assert count == len(parts)
    return sorted(parts)


def told(picture):
    """Groups of a caption: number, colour, shape, boxes."""
    words, groups = picture.text.split(), []
    for i, word in enumerate(words):
        if word in COLOURS:
            groups.append((NUMBERS.index(words[i - 1]), word, SINGULAR[words[i + 1]], picture.boxes[i]))
            assert picture.boxes[i] == picture.boxes[i + 1]
        elif word not in SINGULAR:
            assert picture.boxes[i] is None
    return groups


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.text.replace(" ", "-"))
def test_a_caption_says_what_the_pixels_show(picture):
    parts, groups = seen(picture.image), told(picture)
    assert Counter(colour for _, colour, _ in parts) == Counter(
        {colour: sum(count for count, other, *_ in groups if other == colour) for colour in {g[1] for g in groups}}
    )
    quadrant_of = {box: quadrant for quadrant, _, box in parts}
    colour_of = {box: colour for _, colour, box in parts}
    assert sorted(box for *_, boxes in groups for box in boxes) == sorted(quadrant_of)
    for count, colour, _, boxes in groups:
        assert len(boxes) == count
        assert {colour_of[box] for box in boxes} == {colour}
    firsts = [min(quadrant_of[box] for box in boxes) for *_, boxes in groups]
    assert firsts == sorted(firsts)
    assert len({group[1:3] for group in groups}) == len(groups)
    words = picture.text.split()
    assert len(words) == len(picture.boxes) <= 12
    singles = [quadrant for quadrant, *_ in parts] if len(groups) == len(parts) else []
    assert ("in the" in picture.text) == (len(parts) == 1)
    if len(singles) == 1:
        assert picture.text.endswith(f"in the {PLACES[singles[0]]}")
    if len(singles) == 2:
        above = singles[0] < 2 <= singles[1]
        assert ("above" in words, "left" in words) == (above, not above)
    assert ("and" in words) == (len(groups) > 1 and len(parts) > 2)


def test_shapes_are_told_apart_by_their_pixels():
    """Each shape beside its mean over many pictures, scaled to its box: the nearest mean is that of its own shape."""
    single = [synthetic_picture(np.random.default_rng((8, number)), num_objects=1) for number in range(400)]
    scaled = []
    for picture in single:
        (_, _, shape, ((left, upper, right, lower),)), *_ = told(picture)
        ink = 255.0 - picture.image.min(2)
        part = ink[upper:lower, left:right] / ink.max()
        zoom = ndimage.zoom(part, (16 / part.shape[0], 16 / part.shape[1]), order=1)
        scaled.append((shape, zoom))
    means = {name: np.mean([part for shape, part in scaled[:300] if shape == name], axis=0) for name in SHAPES}
    nearest = [min(means, key=lambda name: np.square(part - means[name]).sum()) for _, part in scaled[300:]]
    assert [shape for shape, _ in scaled[300:]] == nearest


def test_captions_and_pictures_vary():
    assert {count for picture in PICTURES for count in [len(seen(picture.image))]} == {1, 2, 3, 4}
    words = {word for picture in PICTURES for word in picture.text.split()}
    assert {*COLOURS, *SHAPES, "two", "three", "four", "upper", "lower", "left", "right", "above"} <= words
    assert len({picture.text for picture in PICTURES}) > 120
    assert all(len(seen(synthetic_picture(np.random.default_rng(0), num_objects=n).image)) == n for n in (1, 2, 3, 4))


def test_edges_are_smooth():
    alone = next(picture for picture in PICTURES if len(picture.boxes) == 7)
    assert len(np.unique(alone.image.reshape(-1, 3), axis=0)) > 6


def test_files_are_read_back(tmp_path):
    table = write_synthetic_pictures(tmp_path / "made", count=5, seed=3)
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    boxes = read_boxes(table.with_name("boxes.jsonl"))
    assert [name for name, _ in rows] == list(boxes)
    for number, (name, text) in enumerate(rows):
        picture = synthetic_picture(np.random.default_rng((3, number)))
        image = matplotlib.image.imread(table.parent / name)
        np.testing.assert_array_equal(np.rint(image * 255).astype(np.uint8), picture.image)
        assert (text, boxes[name].boxes, boxes[name].size) == (picture.text, picture.boxes, (SIZE, SIZE))
        assert boxes[name].words == tuple(text.split())


def test_a_larger_count_only_adds_and_a_seed_makes_others(tmp_path):
    few, many, other = (
        write_synthetic_pictures(tmp_path / str(i), count=count, seed=seed).read_text().splitlines()
        for i, (count, seed) in enumerate([(3, 1), (6, 1), (6, 2)])
    )
    assert many[:3] == few
    assert many != other


def test_an_earlier_table_stays_unless_it_is_to_be_replaced(tmp_path):
    table = write_synthetic_pictures(tmp_path, count=2)
    before = table.read_text()
    with pytest.raises(RegardError, match=r"pictures\.tsv: the file exists"):
        write_synthetic_pictures(tmp_path, count=3)
    assert table.read_text() == before
    assert len(write_synthetic_pictures(tmp_path, count=3, overwrite=True).read_text().splitlines()) == 3


def test_the_command_writes_them(tmp_path):
    result = CliRunner().invoke(application, ["pictures", str(tmp_path / "a"), "--count", "4", "--objects", "1"])
    assert result.exit_code == 0, result.output
    assert "4 pictures" in result.output
    assert all(" in the " in line for line in (tmp_path / "a" / "pictures.tsv").read_text().splitlines())


@pytest.mark.parametrize("options", [{"count": -1}, {"count": 1, "seed": -1}, {"count": 1, "num_objects": 5}])
def test_impossible_requests_are_refused(tmp_path, options):
    with pytest.raises(RegardError, match="got"):
        write_synthetic_pictures(tmp_path, **options)


@pytest.mark.parametrize("options", [{"count": -1}, {"count": 1, "seed": -1}, {"count": 1, "num_objects": 5}])
def test_impossible_requests_leave_an_earlier_table(tmp_path, options):
    table = write_synthetic_pictures(tmp_path, count=2)
    with pytest.raises(RegardError, match="got"):
        write_synthetic_pictures(tmp_path, **options, overwrite=True)
    assert len(table.read_text().splitlines()) == 2


RIGHT = {"image": "a.png", "text": "a dog", "size": [4, 6], "boxes": [None, [[0, 0, 6, 4]]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": None}, "image: expected the name of a picture; got"),
        ({"text": 3}, "text: expected a caption"),
        ({"size": [4]}, "size: expected height and width"),
        ({"size": [4, 0]}, "size: expected height and width"),
        ({"boxes": {}}, "boxes: expected a list"),
        ({"boxes": [None]}, "boxes: 1 entries for the 2 words"),
        ({"boxes": [None, []]}, "boxes: expected null or a list of boxes"),
        ({"boxes": [None, [[0, 0, 7, 4]]]}, "within 6 × 4 pixels; got"),
        ({"boxes": [None, [[3, 0, 3, 4]]]}, "within 6 × 4 pixels; got"),
        ({"boxes": [None, [[0, 0, True, 4]]]}, "within 6 × 4 pixels; got"),
        ({}, "image: 'a.png' occurs twice"),
    ],
)
def test_mistakes_in_boxes_are_named(tmp_path, change, message):
    path = tmp_path / "boxes.jsonl"
    path.write_text(json.dumps(RIGHT) + "\n\n" + json.dumps(RIGHT | change) + "\n")
    with pytest.raises(DataError, match=message) as caught:
        read_boxes(path)
    assert str(caught.value).startswith(f"{path}:3: ")


def test_a_line_that_is_no_object_is_named(tmp_path):
    path = tmp_path / "boxes.jsonl"
    for line, message in (("[1]", "expected an object"), ("{", "not JSON"), ('{"image": "a"}', "text: .* no such")):
        path.write_text(line)
        with pytest.raises(DataError, match=message):
            read_boxes(path)
