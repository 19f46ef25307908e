"""Strokes: what they may be, how InkML has them, and how they are drawn."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from regard.errors import DataError, RegardError
from regard.image import Rendering, Strokes, Symbol, read_inkml
from test_image_lines import drawn_plainly

XMLNS = 'xmlns="http://www.w3.org/2003/InkML"'


def ring(x, y, size, count=40):
    """A letter o of this height."""
    angles = np.linspace(0, 2 * math.pi, count)
    return [number for a in angles for number in (x + size / 2 * math.cos(a), y + size / 2 * math.sin(a))]


def line_of_letters(count, size=50.0):
    return [ring(1.5 * size * i, 0, size) for i in range(count)]


def ink(tmp_path: Path, body: str, head: str = "") -> Path:
    path = tmp_path / "formula.inkml"
    path.write_text(f"{head}<ink {XMLNS}>{body}</ink>", encoding="utf-8")
    return path


def test_strokes_are_pairs_of_numbers_or_points():
    flat, points = Strokes.of([[0, 1, 2, 3], [4.5, 5]]), Strokes.of([[[0, 1, 99], [2, 3, 99]], [(4.5, 5)]])
    for strokes in (flat, points):
        assert [line.tolist() for line in strokes.lines] == [[[0, 1], [2, 3]], [[4.5, 5]]]
        assert {line.dtype for line in strokes.lines} == {np.dtype(np.float32)}
        assert strokes.bounds == (0, 1, 4.5, 5)
        assert strokes.extent == (4.5, 4)
        assert strokes.num_points == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "ink:7: expected strokes, a list of lists of numbers; got an empty list"),
        (None, "expected strokes, .* got None"),
        ("0 1", "expected strokes, .* got '0 1'"),
        ([[0, 1], []], r"ink:7: stroke 2: expected numbers \[x0, y0, x1, y1, …\]; got an empty list"),
        ([[0, 1], 3], "stroke 2: expected numbers .* got 3"),
        ([[0, 1, 2]], "stroke 1: expected pairs of numbers, x and y; got 3 numbers"),
        ([[0, "a"]], r"stroke 1: expected numbers .* got \[0, 'a'\]"),
        ([[0, True]], r"stroke 1: expected numbers .* got \[0, True\]"),
        ([[0, None]], r"stroke 1: expected numbers .* got \[0, None\]"),
        ([[[0, 1], [2]]], r"stroke 1: expected numbers .* got \[\[0, 1\], \[2\]\]"),
        ([[[0, 1], 2]], "stroke 1: expected numbers"),
        ([[0, {}]], "stroke 1: expected numbers"),
        ([[0, 1, 2, math.nan]], r"stroke 1: point 2 is \[2.0, nan\]; points must be finite"),
        ([[0, 1e39]], r"stroke 1: point 1 is \[0.0, inf\]; points must be finite"),
        ([[0, 10**400]], "stroke 1: expected numbers"),
    ],
)
def test_malformed_strokes_are_named(value, message):
    with pytest.raises(DataError, match=message):
        Strokes.of(value, place="ink:7")


def test_arrays_of_another_shape_and_symbols_without_strokes_are_refused():
    with pytest.raises(DataError, match=r"stroke 1: expected points, an array \(points, 2\); got an array \(3,\)"):
        Strokes((np.zeros(3),))
    with pytest.raises(DataError, match="expected at least one stroke; got none"):
        Strokes(())
    with pytest.raises(DataError, match=r"symbol 'x' has stroke 1 of 1"):
        Strokes((np.zeros((1, 2)),), symbols=(Symbol("x", (0, 1)),))


def test_a_typical_size_is_that_of_letters_whatever_stands_beside_them():
    letters = line_of_letters(8)
    size = Strokes.of(letters).typical_size
    assert size == pytest.approx(50, rel=0.02)
    dots = [[10 * i, 60, 10 * i + 1, 60] for i in range(9)]
    bar = [[0, 30, 700, 30]]
    assert Strokes.of(letters + dots).typical_size == pytest.approx(size)
    assert Strokes.of(letters + bar).typical_size == pytest.approx(size)
    assert Strokes.of([[3, 3]]).typical_size == 0


@pytest.mark.parametrize("unit", [12, 24, 50])
def test_letters_are_as_high_in_short_formulas_as_in_long_ones(unit):
    heights = []
    for count in (1, 4, 40):
        for factor in (0.01, 1, 1000):  # whatever the unit of the strokes
            strokes = Strokes.of([[factor * n for n in letter] for letter in line_of_letters(count)])
            heights.append(Rendering(unit, pen=2, margin=3, max_pixels=10**7).draw(strokes).shape[0])
    assert max(heights) - min(heights) <= 1
    assert heights[0] == pytest.approx(unit + 2 * 3 + 2, abs=1)


def test_a_picture_is_black_ink_on_white_paper_where_the_placement_says():
    strokes = Strokes.of([[0, 0, 40, 30], [35, 5]])
    rendering = Rendering(unit=20, pen=3, margin=(1, 2, 3, 4))
    placement = rendering.place(strokes)
    picture = rendering.draw(strokes)
    assert picture.shape == (placement.height, placement.width, 1)
    assert picture.dtype == np.uint8
    ends = np.concatenate([placement.apply(line) for line in strokes.lines])
    import torch

    segments = torch.tensor([[*ends[0], *ends[1]], [*ends[2], *ends[2]]])
    expected = 255 - 255 * drawn_plainly(segments, placement.height, placement.width, 3.0).numpy()
    assert np.abs(picture[..., 0] - expected).max() <= 0.51
    # the ink touches its margins, which are white
    dark = np.argwhere(picture[..., 0] < 128)
    (top, left), (bottom, right) = dark.min(0), dark.max(0)
    assert (left, top) == (1, 2)
    assert placement.width - 1 - right in (3, 4)
    assert placement.height - 1 - bottom in (4, 5)


@pytest.mark.parametrize(
    "strokes",
    [
        [[5, 5]],
        [[5, 5, 5, 5, 5, 5]],
        [[5, 5], [9, 9]],
        [[1e30, 1e30]],
        [[0, 0, 1e-30, 0]],
        [[0, 0, 1e30, 1e-30]],
        [[0, 0, 0, 1e6], *[[0, i, 0.001, i] for i in range(9)]],
        line_of_letters(200),
        [[1.4e12, 5, 1.4e12 + 3e5, 1e5]],
    ],
    ids=["dot", "still", "dots", "far dot", "tiny", "thin", "bar", "long", "clock"],
)
@pytest.mark.parametrize("max_pixels", [400, 20_000])
def test_no_picture_is_larger_than_allowed_or_without_ink(strokes, max_pixels):
    picture = Rendering(unit=24, pen=2, margin=4, max_pixels=max_pixels).draw(Strokes.of(strokes))
    assert picture.size <= max_pixels
    assert picture.min() < 60  # a dot may lie where four pixels meet
    assert picture[0].min() == picture[-1].min() == picture[:, 0].min() == picture[:, -1].min() == 255


def test_a_formula_that_is_too_large_keeps_its_aspect():
    strokes = Strokes.of(line_of_letters(100))
    large = Rendering(max_pixels=10**7).place(strokes)
    small = Rendering(max_pixels=30_000).place(strokes)
    assert 29_000 < small.height * small.width <= 30_000
    width, height = strokes.extent
    assert small.width == pytest.approx(width * small.scale + 10, abs=1)
    assert small.height == pytest.approx(height * small.scale + 10, abs=1)
    assert small.scale < large.scale


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": 0}, "unit must be above 0"),
        ({"pen": math.inf}, "pen must be above 0"),
        ({"margin": -1}, "margin must be at least 0"),
        ({"margin": (1, 2, 3, math.nan)}, "margin must be at least 0"),
        ({"max_pixels": 100}, "max_pixels=100 has no room for ink: margin and pen need 144 pixels"),
    ],
)
def test_a_drawing_without_room_is_refused(options, message):
    with pytest.raises(RegardError, match=message):
        Rendering(**options)


CROHME = """
<traceFormat><channel name="X" type="decimal"/><channel name="Y" type="decimal"/></traceFormat>
<annotation type="UI">2013_IVC</annotation><annotation type="truth">$x^{2}$</annotation>
<annotationXML type="truth" encoding="Content-MathML"><math><mi>x</mi></math></annotationXML>
<trace id="0">1 2, 3 4,
 5 6</trace><trace id="2">7 8</trace><trace id="1">9 10, 11 12</trace>
<traceGroup xml:id="7"><annotation type="truth">From ITF</annotation>
<traceGroup xml:id="8"><annotation type="truth">2</annotation><traceView traceDataRef="1"/></traceGroup>
<traceGroup xml:id="9"><annotation type="truth">x</annotation>
<traceView traceDataRef="2"/><traceView traceDataRef="0"/></traceGroup></traceGroup>
"""


def test_the_groups_of_crohme_are_symbols(tmp_path):
    strokes = read_inkml(ink(tmp_path, CROHME))
    assert [line.tolist() for line in strokes.lines] == [[[1, 2], [3, 4], [5, 6]], [[7, 8]], [[9, 10], [11, 12]]]
    assert strokes.text == "x^{2}"
    assert strokes.symbols == (Symbol("2", (2,)), Symbol("x", (0, 1)))
    assert strokes.place.endswith("formula.inkml")


def test_channels_are_found_by_their_names(tmp_path):
    channels = "".join(f'<channel name="{name}"/>' for name in ("T", "Y", "F", "X"))
    strokes = read_inkml(ink(tmp_path, f"<traceFormat>{channels}</traceFormat><trace>0 1 2 3, 9 4 2 5</trace>"))
    assert strokes.lines[0].tolist() == [[3, 1], [5, 4]]
    assert strokes.text is None


def test_the_text_is_the_annotation_that_is_asked_for(tmp_path):
    path = ink(
        tmp_path,
        '<annotation type="label">a b</annotation><annotation type="normalizedLabel">ab</annotation><trace>0 1</trace>',
    )
    assert read_inkml(path).text == "ab"
    assert read_inkml(path, truth="label").text == "a b"
    assert read_inkml(path, truth="writer").text is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1"])
def test_encodings_are_obeyed(tmp_path, encoding):
    path = tmp_path / "a.inkml"
    name = encoding.removesuffix("-sig")
    text = (
        f'<?xml version="1.0" encoding="{name}"?><ink><annotation type="truth">é</annotation><trace>0 1</trace></ink>'
    )
    path.write_bytes(text.encode(encoding))
    assert read_inkml(path).text == "é"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "the file has no traces"),
        ("<trace id='4'> </trace>", "trace 4: expected points; got none"),
        ("<trace id='4'>1 2, 3</trace>", "trace 4: point 2: expected at least 2 numbers; got '3'"),
        ("<trace>1 2, 3 x</trace>", "trace 0: point 2: expected numbers; got '3 x'"),
        ("<trace>1 2, '3 '4</trace>", "trace 0: point 2: expected numbers.*\n  Differences of points"),
        ("<trace>1 2, 3 nan</trace>", r"stroke 1: point 2 is \[3.0, nan\]"),
        ("<trace>1 2", "not XML at column"),
        ("<traceFormat><channel name='X'/></traceFormat><trace>1</trace>", "expected channels X and Y; got X"),
        (
            "<trace id='a'>1 2</trace><traceGroup><annotation>x</annotation><traceView traceDataRef='b'/></traceGroup>",
            "the group of 'x' has trace 'b', which does not exist",
        ),
    ],
)
def test_malformed_ink_is_named(tmp_path, body, message):
    with pytest.raises(DataError, match=rf"formula.inkml(:1)?: .*{message}"):
        read_inkml(ink(tmp_path, body))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b" \n ", "the file is empty"),
        (b"\x1f\x8b123", "is compressed; unpack it first"),
        (b"<svg/>", "expected the element ink; got 'svg'"),
        (b"hello", "a.inkml:1: not XML at column 1"),
        ("<ink/>".encode("utf-16"), "UTF-16 or binary data cannot be read; convert the file to UTF-8"),
        (b'<?xml version="1.0" encoding="cp037"?><ink/>', "the encoding cp037 cannot be read"),
        (b"<ink>\xff</ink>", "not UTF-8: byte 0xFF at 6 of the file"),
        (b"<ink>" + b"<a>" * 100_000, "not XML"),
    ],
)
def test_files_that_are_no_ink_are_called_what_they_are(tmp_path, content, message):
    path = tmp_path / "a.inkml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_inkml(path)


def test_missing_files_are_named_and_large_ones_not_read(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"a.inkml: no such file"):
        read_inkml(tmp_path / "a.inkml")
    with pytest.raises(DataError, match="cannot be read"):
        read_inkml(tmp_path)
    monkeypatch.setattr("regard.image.inkml.MAX_BYTES", 10)
    with pytest.raises(DataError, match=r"bytes are more than the limit for handwriting, 10"):
        read_inkml(ink(tmp_path, "<trace>1 2</trace>"))


@pytest.mark.parametrize(
    "head",
    [
        '<!DOCTYPE ink [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE ink SYSTEM "file:///etc/passwd">',
        '<!doctype ink [<!entity x SYSTEM "file:///etc/hostname">]>',
    ],
)
def test_entities_are_refused_before_anything_is_parsed(tmp_path, head, monkeypatch):
    monkeypatch.setattr("xml.etree.ElementTree.fromstring", lambda *a: pytest.fail("parsed"))
    with pytest.raises(DataError, match="declarations of document types and entities are not allowed"):
        read_inkml(ink(tmp_path, "<trace>&b;</trace>", head))
