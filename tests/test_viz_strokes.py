"""Handwriting in the colours of the symbols that were read."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from regard.errors import RegardError, ShapeError
from regard.image import Fitting, Rendering, Strokes, pixel_strokes
from regard.viz import CaptionedImage, plot_strokes, stroke_picture
from regard.viz.colours import distinct
from regard.viz.stroke_picture import UNREAD, draw_strokes
from regard.viz.strokes import along, strokes_of

IMAGE = np.full((20, 60), 255, np.uint8)
ROWS = [[3, 3], [57, 17], [25, 15, 35, 15]]
"""Dots at the upper left and the lower right, a bar at the lower middle."""


def written(order=(5, 0, 4), **changes):
    """A grid of 2 by 3 cells of 10 by 20 pixels; each symbol looks at one cell."""
    maps = np.full((len(order), 6), 0.02)
    maps[np.arange(len(order)), order] = 0.9
    usual = {
        "image": IMAGE,
        "tokens": list("abcdefgh")[: len(order)],
        "maps": maps,
        "grid": (2, 3),
        "cell_size": (10, 20),
    }
    return CaptionedImage(**(usual | changes))


def test_a_stroke_belongs_to_the_symbol_that_looked_at_it_most():
    strokes = Strokes.of(ROWS)
    assert strokes_of(strokes, written()).tolist() == [1, 0, 2]
    assert strokes_of(strokes, written((4, 5, 0))).tolist() == [2, 1, 0]
    with_brace = written(tokens=["a", "{", "c"])
    assert strokes_of(strokes, with_brace).tolist()[1:] == [0, 2]
    assert strokes_of(strokes, with_brace, without_ink=()).tolist() == [1, 0, 2]


def test_rows_and_columns_are_not_swapped():
    """A stroke in each cell of a grid that is not square, and a permutation that is not its own inverse."""
    order = [4, 2, 0, 5, 1, 3]
    strokes = Strokes.of([[20 * x + 6, 10 * y + 4, 20 * x + 15, 10 * y + 6] for y in range(2) for x in range(3)])
    assert strokes_of(strokes, written(order)).tolist() == [order.index(cell) for cell in range(6)]


def test_a_long_stroke_belongs_to_what_looked_along_it_and_not_to_a_glance_at_its_end():
    bar = Strokes.of([[2, 15, 58, 15]])
    maps = np.zeros((2, 2, 3))
    maps[0, 1, 0], maps[0, 0] = 0.6, [0.2, 0.1, 0.1]
    maps[1, 1] = 1 / 3
    assert strokes_of(bar, written((0, 1), maps=maps, grid=None)).tolist() == [1]


def test_what_nobody_looked_at_belongs_to_no_symbol():
    maps = np.zeros((2, 2, 3))
    maps[0, 0, 0], maps[1] = 1.0, np.nan
    strokes = Strokes.of(ROWS)
    assert strokes_of(strokes, written((0, 1), maps=maps, grid=None)).tolist() == [0, -1, -1]
    assert strokes_of(strokes, written(())).tolist() == [-1, -1, -1]


def test_flat_attention_has_no_colours_and_shared_strokes_are_paler(tmp_path, monkeypatch):
    strokes, shown = Strokes.of(ROWS), []
    monkeypatch.setattr(stroke_picture, "draw_strokes", lambda *given, **_: shown.append(given) or Figure())
    flat = written(maps=np.full((3, 6), 1 / 6))
    assert strokes_of(strokes, flat).tolist() == [-1, -1, -1]
    large = written(maps=np.full((3, 6), 1 / 6) + 0.01 * np.eye(3, 6))
    assert strokes_of(strokes, large).tolist() == [-1, -1, -1]
    maps = np.full((3, 6), 0.02)
    maps[0, 0] = maps[1, 0] = maps[2, 5] = 0.9
    plot_strokes(strokes, written(maps=maps), tmp_path / "a.png")
    owners, certainties = shown[0][2:]
    assert owners.tolist() == [0, 2, -1]
    assert certainties[0] < 0.3 < 0.9 < certainties[1]
    plain, pale = (draw_strokes(strokes, written(), np.array([0, 1, 2]), np.full(3, c)).axes[0] for c in (1.0, 0.2))
    assert "paler: other symbols attended" in pale.texts[-1].get_text()
    assert "paler" not in plain.texts[-1].get_text()
    colourful = [np.ptp(axes.collections[0].get_colors()[:, :3], axis=1).mean() for axes in (plain, pale)]
    assert colourful[1] < 0.6 * colourful[0]


def test_points_along_a_line_are_equally_far_apart():
    line = np.array([[0, 0], [10, 0], [10, 0], [10, 5]], float)
    points = along(line, 1.0)
    assert len(points) == 16
    assert np.hypot(*np.diff(points, axis=0).T) == pytest.approx(1.0)
    assert along(np.array([[3.0, 4.0]] * 3), 1.0).tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_strokes_are_drawn_into_each_kind_of_file(tmp_path, suffix):
    path = plot_strokes(Strokes.of(ROWS), written(text="$x_{<b>}$"), tmp_path / "new" / f"a.{suffix}")
    assert path.read_bytes().startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])


def test_symbols_have_the_colours_and_numbers_of_their_strokes():
    caption = written((5, 0, 4), tokens=["a", "_", "c"])
    strokes = Strokes.of([*ROWS, [45, 14, 55, 14]])
    owners = np.array([-1, 0, 2, 0])
    axes = draw_strokes(strokes, caption, owners, np.ones(4)).axes[0]
    rgb = [tuple(round(255 * part) for part in colour[:3]) for colour in axes.collections[0].get_colors()]
    first, second = (tuple((255 * colour).round().astype(int)) for colour in distinct(2))
    grey = tuple(bytes.fromhex(UNREAD[1:]))
    assert rgb == [grey, first, second, first]
    words = {text.get_text(): text.get_color() for text in axes.texts if text.get_text() in caption.tokens}
    assert words["_"] == UNREAD
    assert [tuple(bytes.fromhex(words[word][1:])) for word in "ac"] == [first, second]
    assert [text.get_text() for text in axes.texts].count("1") == 2
    assert (
        axes.texts[-1].get_text() == "grey: no stroke; grey strokes: no symbol attended to them more than to the rest"
    )


def test_strokes_are_drawn_as_they_were_written():
    strokes = Strokes.of([[0, 0, 60, 0, 60, 20, 0, 20, 0, 0]])
    axes = draw_strokes(strokes, written(), np.array([0]), np.ones(1)).axes[0]
    (line,) = axes.collections[0].get_segments()
    (left, top), (right, bottom) = line.min(0), line.max(0)
    assert (right - left) / (bottom - top) == pytest.approx(3)
    assert axes.yaxis_inverted(), "y points down"
    width, height = axes.figure.get_size_inches()
    assert 0 < left < right < width
    assert 0 < top < bottom < height


def test_forty_colours_can_be_read_on_white_and_neighbours_told_apart():
    colours = distinct(40)
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    contrast = 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    assert contrast.min() > 3.5
    for apart, least in ((1, 0.2), (2, 0.2), (3, 0.1)):
        assert np.abs(colours[apart:] - colours[:-apart]).max(axis=1).min() > least
    assert len({tuple((colour * 255).round()) for colour in colours}) == 40


FITTINGS = [
    None,
    Fitting(max_height=24, invert=True),
    Fitting(size=(40, 40), invert=True),
    Fitting(size=(30, 50), fit="crop", invert=True),
    Fitting(size=(60, 40), fit="stretch", invert=True),
]


@pytest.mark.parametrize("fitting", FITTINGS)
def test_strokes_in_pixels_lie_on_the_ink_of_the_image(fitting):
    strokes = Strokes.of([[100, 300, 400, 300], [250, 150, 250, 450], [700, 320]])
    rendering = Rendering(unit=30, pen=4)
    image = rendering.draw(strokes)
    seen = image[..., 0] if fitting is None else 255 * (1 - fitting(image)[0])
    for line in pixel_strokes(strokes, rendering, fitting).lines:
        x, y = np.floor(along(line, 0.5)).astype(int).T
        inside = (x >= 0) & (x < seen.shape[1]) & (y >= 0) & (y < seen.shape[0])
        assert inside.any()
        assert seen[y[inside], x[inside]].max() < 160


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(RegardError, match=r"(?s)outside the image.*20 × 60 pixels.*x from 0 to 900.*pixel_strokes"):
        plot_strokes(Strokes.of([[0, 0, 900, 10]]), written(), tmp_path / "a.png")
    with pytest.raises(ShapeError, match=r"must be regard\.image\.Strokes; got list"):
        plot_strokes([[0, 0, 1, 1]], written(), tmp_path / "a.png")
    with pytest.raises(RegardError, match="expected one of"):
        plot_strokes(Strokes.of(ROWS), written(), tmp_path / "a.html")
    plot_strokes(Strokes.of(ROWS), written((), text=""), tmp_path / "a.png")
