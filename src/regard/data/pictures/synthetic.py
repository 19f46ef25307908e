"""Synthetic pictures with unambiguous captions, and the boxes of the objects that each word names.

**Captions.** Objects of the same colour and shape are one group. Groups are listed by the quadrant of their first
object: upper left, upper right, lower left, lower right. The caption has

- for a single object its place: `a red star in the upper left`,
- for two single objects `above` if the first is in the upper half and the second in the lower, else `left of`:
  `a red circle above a blue square`,
- for all others the number of objects of each group: `two green triangles and a yellow star`,
  `two red rings a blue star and a black cross`, `four red stars`.

Four objects are at most three groups, and no caption has more than 10 words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.data.text.jsonl import parse
from regard.errors import OVERWRITE_OPTION, DataError, RegardError
from regard.files import replace_text, writing

Box = tuple[float, float, float, float]
"""Left, upper, right and lower edge, in pixels from the upper left corner; pixels 3 and 4 have the edges 3 and 5."""
WordBoxes = tuple[tuple[Box, ...] | None, ...]
"""For each word the boxes of the objects that it names, or None."""
Outline = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]

SIZE = 64
"""Height and width of a picture."""
QUADRANT = SIZE // 2
RADII = 6.5, 11.0
"""The least and the largest radius of an object."""
REACH = 1.2
"""The largest distance of a shape's corners from its centre, in radii."""
MARGIN = 1.5
"""The least distance of an object from the edges of its quadrant, in pixels."""
TURN = math.radians(12)
"""The largest rotation of a shape."""
SAMPLES = 4
"""Samples per pixel in each direction, for smooth edges."""
PAPER = 255
TINT = 15
"""The largest change of a channel of a colour."""
PICTURES, TABLE, BOXES = "pictures", "pictures.tsv", "boxes.jsonl"

COLOURS = {
    "red": (215, 40, 40),
    "green": (40, 155, 70),
    "blue": (45, 85, 205),
    "yellow": (240, 195, 30),
    "black": (40, 40, 40),
}


def _star(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Five points at 1.2, corners between them at 0.5."""
    fifth = 2 * math.pi / 5
    angle = np.abs((np.arctan2(x, -y) + fifth / 2) % fifth - fifth / 2)  # from the nearest point
    along, across = np.hypot(x, y) * np.cos(angle), np.hypot(x, y) * np.sin(angle)
    inner = 0.5 * math.cos(fifth / 2), 0.5 * math.sin(fifth / 2)
    return (1.2 - along) * inner[1] >= across * (1.2 - inner[0])


def _triangle(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Three corners at 1.2, one of them at the top."""
    sides = np.stack([y, *(-y / 2 + sign * x * math.sqrt(3) / 2 for sign in (1, -1))])
    return sides.max(0) <= 0.6


SHAPES: dict[str, Outline] = {
    "circle": lambda x, y: x**2 + y**2 <= 0.95**2,
    "ring": lambda x, y: np.abs(np.hypot(x, y) - 0.8) <= 0.22,
    "square": lambda x, y: np.maximum(np.abs(x), np.abs(y)) <= 0.8,
    "triangle": _triangle,
    "star": _star,
    "cross": lambda x, y: np.minimum(np.abs(x), np.abs(y)) <= np.where(np.maximum(abs(x), abs(y)) <= 1.05, 0.3, -1),
}
"""Whether points are inside a shape of radius 1; y goes down."""
NUMBERS = ("", "a", "two", "three", "four")
PLACES = ("upper left", "upper right", "lower left", "lower right")
GROUPS = {
    1: ((1,),),
    2: ((1, 1), (1, 1), (2,)),
    3: ((1, 1, 1), (2, 1), (1, 2), (3,)),
    4: ((2, 1, 1), (2, 2), (3, 1), (4,)),
}
"""The possible sizes of groups by the number of objects."""


class SyntheticPicture(NamedTuple):
    """A drawn picture.

    Args:
        image: (64, 64, 3) uint8 on white.
        text: the caption.
        boxes: for each word of the caption its boxes; colours and shapes name their objects.
    """

    image: NDArray[np.uint8]
    text: str
    boxes: WordBoxes


@dataclass(frozen=True, slots=True)
class PictureBoxes:
    """The boxes of a picture.

    Args:
        words: the words of its caption.
        boxes: for each word its boxes, or None.
        size: height and width of the picture in pixels.
    """

    words: tuple[str, ...]
    boxes: WordBoxes
    size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Object:
    colour: str
    shape: str
    quadrant: int
    box: Box


def synthetic_picture(generator: np.random.Generator, *, num_objects: int | None = None) -> SyntheticPicture:
    """A picture of 64 × 64 pixels with up to four objects of six shapes and five colours, and its caption.

    Every object is in a separate quadrant, so that objects do not touch and captions are unambiguous; position, size,
    angle (up to 12°) and tint vary. The module's docstring has the rules of captions.

    Args:
        generator: determines the picture.
        num_objects: 1 to 4; random if None.

    Raises:
        RegardError: for another number of objects.

    >>> picture = synthetic_picture(np.random.default_rng(4))
    >>> picture.text, picture.image.shape
    ('three black squares', (64, 64, 3))
    >>> [None if boxes is None else len(boxes) for boxes in picture.boxes]
    [None, 3, 3]
    """
    _check_objects(num_objects)
    count = int(generator.integers(1, len(PLACES) + 1)) if num_objects is None else num_objects
    sizes = GROUPS[count][generator.integers(len(GROUPS[count]))]
    kinds = generator.choice(len(COLOURS) * len(SHAPES), size=len(sizes), replace=False)
    quadrants = iter(generator.permutation(len(PLACES))[:count].tolist())
    image = np.full((SIZE, SIZE, 3), float(PAPER))
    objects = []
    for kind, size in zip(kinds.tolist(), sizes):
        colour, shape = list(COLOURS)[kind // len(SHAPES)], list(SHAPES)[kind % len(SHAPES)]
        for _ in range(size):
            quadrant = next(quadrants)
            objects.append(_Object(colour, shape, quadrant, _draw(image, colour, shape, quadrant, generator)))
    words, boxes = _caption(objects)
    return SyntheticPicture(np.rint(image).astype(np.uint8), " ".join(words), tuple(boxes))


def write_synthetic_pictures(
    folder: Path | str, *, count: int, seed: int = 1, num_objects: int | None = None, overwrite: bool = False
) -> Path:
    """Writes synthetic pictures as PNG files with their captions and boxes, and returns the path of the table.

    The folder gets `pictures.tsv` (the path of a picture, a tab, its caption), `boxes.jsonl` (`read_boxes`) and the
    folder `pictures`. Picture n depends on the seed and n only, so that a larger count only adds pictures. The table is
    written last, after everything else.

    Args:
        num_objects: as in `synthetic_picture`.
        overwrite: whether to replace the files of an earlier call.

    Raises:
        RegardError: for a count or seed below zero, another number of objects, or if the table exists without
            `overwrite`.
    """
    _check_objects(num_objects)
    folder = Path(folder)
    table = folder / TABLE
    if count < 0 or seed < 0:
        raise RegardError(f"count and seed must be at least 0; got {count} and {seed}.")
    if table.exists():
        if not overwrite:
            raise RegardError(f"{table}: the file exists; choose another folder or add {OVERWRITE_OPTION}.")
        with writing(table):
            table.unlink()
    from PIL import Image  # not at the start of every command

    rows, records = [], []
    with writing(folder):
        (folder / PICTURES).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            picture = synthetic_picture(np.random.default_rng((seed, number)), num_objects=num_objects)
            name = f"{PICTURES}/{number:06}.png"
            Image.fromarray(picture.image).save(folder / name)
            rows.append(f"{name}\t{picture.text}\n")
            record = {"image": name, "text": picture.text, "size": [SIZE, SIZE], "boxes": picture.boxes}
            records.append(json.dumps(record) + "\n")
    replace_text(folder / BOXES, "".join(records))
    replace_text(table, "".join(rows))
    return table


def read_boxes(path: Path | str) -> dict[str, PictureBoxes]:
    """The boxes of pictures by their names, from a file with one JSON object per line.

    An object has `image`, as in the table of pictures; `text`, with words between spaces; `size`, height and width; and
    `boxes`: for each word null, or a list of boxes `[left, upper, right, lower]` in pixels.

    Raises:
        DataError: for a file that cannot be read, a line without such an object, different numbers of boxes and words,
            a box that is empty or leaves the picture, or a picture that occurs twice. The text names file, line, field
            and value.
    """
    lines = Lines(path, skip_blank=True)
    by_name: dict[str, PictureBoxes] = {}
    for index, line in enumerate(lines):
        place = f"{lines.path}:{lines.number(index)}"
        record = parse(line, place)
        if not isinstance(record, dict):
            raise DataError(f"{place}: expected an object with image, text, size and boxes; got {shorten(line)}.")
        image, text = (_field(record, name, place, lambda value: isinstance(value, str)) for name in ("image", "text"))
        size = _field(record, "size", place, _is_size)
        listed = _field(record, "boxes", place, lambda value: isinstance(value, list))
        words = tuple(text.split())
        if len(listed) != len(words):
            raise DataError(f"{place}: boxes: {len(listed)} entries for the {len(words)} words of {shorten(text)}.")
        boxes = tuple(None if entry is None else _boxes(entry, size, place) for entry in listed)
        if image in by_name:
            raise DataError(f"{place}: image: {shorten(image)} occurs twice.")
        by_name[image] = PictureBoxes(words, boxes, (size[0], size[1]))
    return by_name


def _check_objects(num_objects: int | None) -> None:
    if num_objects is not None and num_objects not in GROUPS:
        raise RegardError(f"A picture has 1 to {len(PLACES)} objects; got num_objects={num_objects}.")


def _draw(image: NDArray[np.float64], colour: str, shape: str, quadrant: int, generator: np.random.Generator) -> Box:
    """Draws an object into a quadrant and returns the box of its pixels."""
    radius = generator.uniform(*RADII)
    room = REACH * radius + MARGIN
    x, y = generator.uniform(room, QUADRANT - room, size=2)
    angle = generator.uniform(-TURN, TURN)
    tint = np.array(COLOURS[colour]) + generator.uniform(-TINT, TINT, size=3)
    grid = (np.arange(QUADRANT * SAMPLES) + 0.5) / SAMPLES
    across, down = (grid - x)[None] / radius, (grid - y)[:, None] / radius
    turned = across * math.cos(angle) + down * math.sin(angle), down * math.cos(angle) - across * math.sin(angle)
    inside = SHAPES[shape](*turned)
    share = inside.reshape(QUADRANT, SAMPLES, QUADRANT, SAMPLES).mean((1, 3))
    top, left = quadrant // 2 * QUADRANT, quadrant % 2 * QUADRANT
    part = image[top : top + QUADRANT, left : left + QUADRANT]
    part += share[..., None] * (tint.clip(0, PAPER) - part)
    rows, columns = np.flatnonzero(share.any(1)), np.flatnonzero(share.any(0))
    edges = left + columns[0], top + rows[0], left + columns[-1] + 1, top + rows[-1] + 1
    return tuple(map(int, edges))  # type: ignore[return-value]


def _caption(objects: Sequence[_Object]) -> tuple[list[str], list[tuple[Box, ...] | None]]:
    """The words of a caption, and the boxes of each."""
    by_quadrant = sorted(objects, key=lambda item: item.quadrant)
    first = {(item.colour, item.shape): item.quadrant for item in reversed(by_quadrant)}
    ordered = sorted(by_quadrant, key=lambda item: (first[item.colour, item.shape], item.quadrant))
    groups = [list(group) for _, group in groupby(ordered, key=lambda item: first[item.colour, item.shape])]
    words: list[str] = []
    boxes: list[tuple[Box, ...] | None] = []

    def add(text: str, group: Sequence[_Object] = ()) -> None:
        for word in text.split():
            words.append(word)
            boxes.append(tuple(item.box for item in group) or None)

    pair = len(groups) == 2 and len(objects) == 2
    for number, group in enumerate(groups):
        if pair and number:
            add("above" if by_quadrant[0].quadrant // 2 < by_quadrant[1].quadrant // 2 else "left of")
        elif number and number == len(groups) - 1:
            add("and")
        colour, shape = group[0].colour, group[0].shape
        ending = "" if len(group) == 1 else "es" if shape.endswith("s") else "s"
        add(NUMBERS[len(group)])
        add(f"{colour} {shape}{ending}", group)
    if len(objects) == 1:
        add(f"in the {PLACES[objects[0].quadrant]}")
    return words, boxes


def _field(record: dict[str, Any], name: str, place: str, is_right: Callable[[Any], bool]) -> Any:
    if name not in record or not is_right(record[name]):
        value = shorten(json.dumps(record[name])) if name in record else "no such field"
        raise DataError(f"{place}: {name}: expected {EXPECTED[name]}; got {value}.")
    return record[name]


EXPECTED = {
    "image": "the name of a picture",
    "text": "a caption",
    "size": "height and width in pixels",
    "boxes": "a list with null or a list of boxes for each word",
}


def _is_size(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(side) is int and side > 0 for side in value)


def _boxes(entry: Any, size: Sequence[int], place: str) -> tuple[Box, ...]:
    """The boxes of a word."""
    if not isinstance(entry, list) or not entry:
        raise DataError(f"{place}: boxes: expected null or a list of boxes; got {shorten(json.dumps(entry))}.")
    for box in entry:
        numbers = isinstance(box, list) and len(box) == 4 and all(type(edge) in (int, float) for edge in box)
        if not numbers or not (0 <= box[0] < box[2] <= size[1] and 0 <= box[1] < box[3] <= size[0]):
            raise DataError(
                f"{place}: boxes: expected [left, upper, right, lower] within {size[1]} × {size[0]} pixels; got "
                f"{shorten(json.dumps(box))}."
            )
    return tuple((box[0], box[1], box[2], box[3]) for box in entry)
