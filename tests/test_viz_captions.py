"""Pictures and the page of captioned images: what is where on the image, what is drawn of it, and what is refused."""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.viz import CaptionedImage, plot_captioned_image
from regard.viz.caption_picture import GAP, LINE, MARGIN, Grid, draw_captions, strengths
from regard.viz.maps import cells, resized, smoothed, tinted, tints
from regard.viz.picture import DPI

WORDS = ["a", "red", "cat", "sees", "no", "dog"]
ORDER = [4, 2, 0, 5, 1, 3]
"""The cell of each word in a grid of two rows and three columns; not equal to its own inverse or its transpose."""


def permuted(**changes):
    """A white image of 32 by 48 pixels with cells of 16; each word looks at one cell, at `ORDER`, with weight 0.8."""
    maps = np.full((6, 6), 0.04)
    maps[np.arange(6), ORDER] = 0.8
    usual = {"image": np.full((32, 48, 1), 255, np.uint8), "tokens": WORDS, "maps": maps, "grid": (2, 3)}
    return CaptionedImage(**(usual | {"text": "a red cat"} | changes))


def panels(figure, item):
    """The panels (n, m, 3) of a figure, the image first."""
    canvas = np.asarray(figure.images[0].get_array()) / 255
    grid = Grid.of(item.size, len(item.tokens) + 1)
    (across, down), head = grid.step, MARGIN + (0.34 if item.text else 0.0)
    result = []
    for place in range(len(item.tokens) + 1):
        row, column = divmod(place, grid.columns)
        y, x = round((head + row * down + LINE) * DPI), round((MARGIN + column * across) * DPI)
        result.append(canvas[y : y + round(grid.height * DPI), x : x + round(grid.width * DPI)])
    return result


def colourfulness(panel):
    return panel.max(axis=2) - panel.min(axis=2)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "html"])
def test_a_caption_is_drawn_into_each_kind_of_file(tmp_path, suffix):
    path = plot_captioned_image(permuted(text="$a_b$ <i>"), tmp_path / "new" / f"a.{suffix}")
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!DOCTYPE"}[suffix]
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("smooth", [False, True])
def test_each_word_lights_its_own_cell_of_an_image_that_is_not_square(smooth):
    item = permuted()
    drawn = panels(next(draw_captions([item], smooth=smooth)), item)
    assert (drawn[0] == 1).all(), "the image itself comes first, as it is"
    for word, cell in enumerate(ORDER):
        colour = colourfulness(drawn[1 + word])
        height, width = colour.shape
        y, x = np.unravel_index(colour.argmax(), colour.shape)
        assert (y * 2 // height, x * 3 // width) == divmod(cell, 3)
        block = colour.reshape(2, height // 2, 3, width // 3) if height % 2 == width % 3 == 0 else None
        if block is not None:
            assert block.mean(axis=(1, 3)).argmax() == cell


def test_cells_are_exact_rectangles():
    item = permuted(maps=np.eye(6)[ORDER], cell_size=16)
    drawn = panels(next(draw_captions([item])), item)  # a single cell is never smoothed
    full = tinted(np.ones((1, 1, 1)), np.ones((1, 1)))[0, 0]
    for word, cell in enumerate(ORDER):
        height, width = drawn[1 + word].shape[:2]
        rows = np.floor((np.arange(height) + 0.5) / height * 2)
        columns = np.floor((np.arange(width) + 0.5) / width * 3)
        inside = (rows[:, None] * 3 + columns) == cell
        assert np.abs(drawn[1 + word][inside] - full).max() < 0.01
        assert (drawn[1 + word][~inside] == 1).all()


def test_the_last_cell_may_reach_beyond_the_image():
    """20 by 40 pixels with cells of 16: rows of 16 and 4 pixels, columns of 16, 16 and 8."""
    item = permuted(image=np.full((20, 40), 255, np.uint8), maps=np.eye(6).reshape(6, 2, 3), grid=None, cell_size=16)
    counts = [int(strengths(item, word, (20, 40), smooth=False).sum()) for word in range(6)]
    assert counts == [16 * 16, 16 * 16, 16 * 8, 4 * 16, 4 * 16, 4 * 8]
    assert item.box(1, 2) == (32, 16, 40, 20)
    seen = strengths(permuted(image=np.full((20, 40), 255, np.uint8), cell_size=16), 3, (20, 40), smooth=True)
    y, x = np.unravel_index(seen.argmax(), seen.shape)
    assert (y, x) == (19, 39), "the centre of the last cell is outside; what is nearest to it is strongest"


def test_maps_of_both_shapes_and_tensors_are_the_same():
    flat = permuted()
    for maps in (flat.maps, torch.tensor(flat.maps, requires_grad=True), flat.maps.tolist()):
        again = permuted(maps=maps, grid=None)
        np.testing.assert_array_equal(again.maps, flat.maps)
    assert permuted(image=torch.full((32, 48), 255, dtype=torch.uint8)).image.shape == (32, 48, 1)
    assert flat.peaks.tolist() == [list(divmod(cell, 3)) for cell in ORDER]
    assert flat.largest == pytest.approx(np.full(6, 0.8))
    assert (flat.grid, flat.cell_size, flat.sums_to_one) == ((2, 3), (16.0, 16.0), True)


@pytest.mark.parametrize(
    ("image", "grid", "cell"),
    [
        ((224, 224), (14, 14), (16, 16)),
        ((96, 618), (12, 78), (8, 8)),  # 77.25 columns
        ((10, 10), (3, 3), (4, 4)),
        ((256, 256), (14, 14), (256 / 14, 256 / 14)),
        ((1, 1), (1, 1), (1, 1)),
        ((64, 48), (1, 1), (64, 64)),
        ((32, 400), (1, 100), (32, 4)),
    ],
)
def test_the_size_of_cells_follows_from_the_shapes(image, grid, cell):
    item = CaptionedImage(np.zeros(image, np.uint8), ["x"], np.zeros((1, *grid)))
    assert item.cell_size == pytest.approx(cell)


def test_padding_is_cut_off():
    maps = np.zeros((6, 4, 5))
    maps[:, :2, :3] = permuted().maps
    maps[0, 3, 4] = 0.5
    item = permuted(maps=maps, grid=None, cell_size=16)
    np.testing.assert_array_equal(item.maps, permuted().maps)
    assert item.left_out == pytest.approx(0.5 / 6.5)
    assert item.remarks == "7.7% of the weight lay on padding"
    assert permuted(note="n").remarks == "n"
    mask = np.zeros((4, 5), bool)
    mask[:2, :3] = True
    for image in (np.zeros((64, 80), np.uint8), np.zeros((64, 80, 3), np.uint8)):
        masked = permuted(image=image, maps=maps, grid=None, cell_size=16, mask=mask.ravel())
        np.testing.assert_array_equal(masked.maps, permuted().maps)
        assert masked.image.shape == (32, 48, image.shape[2] if image.ndim == 3 else 1)


def test_the_end_symbol_needs_no_token_and_may_be_left_out():
    item = permuted(tokens=WORDS[:5])
    assert item.tokens == (*WORDS[:5], "</s>")
    short = item.without_end()
    assert (short.tokens, short.maps.shape) == (tuple(WORDS[:5]), (5, 2, 3))
    assert permuted().without_end().tokens == tuple(WORDS)


def test_between_centres_weights_are_those_of_cubic_convolution():
    """Against the equation of Keys 1981 as loops."""
    random = np.random.default_rng(0)
    weights = random.random((3, 4))
    rows, columns = random.uniform(0, 3, 5), random.uniform(0, 4, 6)

    def kernel(s):
        s = abs(s)
        if s < 1:
            return 1.5 * s**3 - 2.5 * s**2 + 1
        return -0.5 * s**3 + 2.5 * s**2 - 4 * s + 2 if s < 2 else 0.0

    expected = np.zeros((5, 6))
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        y, x = min(max(row - 0.5, 0), 2), min(max(column - 0.5, 0), 3)
        for a, b in itertools.product(range(-3, 8), range(-3, 9)):
            value = weights[min(max(a, 0), 2), min(max(b, 0), 3)]
            expected[i, j] += value * kernel(y - a) * kernel(x - b)
    found = smoothed(weights, rows, columns)
    np.testing.assert_allclose(found, expected.clip(weights.min(), weights.max()), atol=1e-12)


def test_smooth_maps_keep_the_weights_at_the_centres_of_cells_and_their_range():
    weights = np.random.default_rng(1).random((3, 5))
    np.testing.assert_allclose(smoothed(weights, np.arange(3) + 0.5, np.arange(5) + 0.5), weights, atol=1e-12)
    fine = smoothed(weights, np.linspace(0, 3, 70), np.linspace(0, 5, 90))
    assert weights.min() <= fine.min()
    assert fine.max() <= weights.max()
    np.testing.assert_allclose(fine[0], fine[11], atol=1e-12, err_msg="beyond the outermost centres it stays")
    np.testing.assert_allclose(
        smoothed(weights.T, np.array([1.2]), np.array([2.1])), smoothed(weights, np.array([2.1]), np.array([1.2])).T
    )
    np.testing.assert_array_equal(cells(weights, np.array([0.0, 0.99, 2.5]), np.array([4.9])), weights[[0, 0, 2], 4:])


def test_images_are_resized_by_means_and_by_pixels():
    image = np.arange(24, dtype=np.uint8).reshape(4, 6, 1) * 10
    np.testing.assert_allclose(resized(image, 2, 3)[..., 0] * 255, image.reshape(2, 2, 3, 2).mean(axis=(1, 3)))
    np.testing.assert_allclose(resized(image, 8, 12)[..., 0] * 255, np.kron(image[..., 0], np.ones((2, 2))))
    np.testing.assert_allclose(resized(image, 1, 1)[0, 0] * 255, image.mean())


def test_ink_can_be_read_below_the_strongest_colour():
    for strength in (0.0, 0.5, 1.0):
        (paper,), (ink,) = tinted(np.array([[[1.0]], [[0.0]]]), np.full((2, 1), strength))
        linear = [((c + 0.055) / 1.055) ** 2.4 @ [0.2126, 0.7152, 0.0722] for c in (paper, ink)]
        assert (linear[0] + 0.05) / (linear[1] + 0.05) > 1.5
    assert tints()[0] == pytest.approx(np.ones(3), abs=1e-6)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_a_picture_says_words_weights_and_what_its_colours_mean():
    assert texts(next(draw_captions([permuted(note="cut")]))) == [
        "a red cat", "cut", "image", *itertools.chain.from_iterable((word, "0.80") for word in WORDS),
        "0 to the number above each map; a word’s weights sum to 1",
    ]  # fmt: skip
    half = permuted(maps=permuted().maps / 2, text="")
    assert texts(next(draw_captions([half], highest="largest")))[-1] == "weight, 0 to 0.4, the largest"
    assert texts(next(draw_captions([half], highest=0.3)))[-1] == "weight, 0 to 0.3 and above"
    assert texts(next(draw_captions([half], highest=0.5)))[-1] == "weight, 0 to 0.5"


def test_with_a_common_scale_words_can_be_compared():
    maps = permuted().maps.copy()
    maps[0] /= 4
    item = permuted(maps=maps)
    alone = [colourfulness(panel).max() for panel in panels(next(draw_captions([item])), item)[1:]]
    common = [colourfulness(panel).max() for panel in panels(next(draw_captions([item], highest="largest")), item)[1:]]
    assert alone == pytest.approx([alone[0]] * 6, abs=0.01)
    assert common[0] < 0.7 * common[1]


def test_hard_attention_marks_the_chosen_cell():
    item = permuted(maps=np.eye(6)[ORDER])
    assert item.is_hard.all()
    figure = next(draw_captions([item]))
    marks = [patch for patch in figure.axes[0].patches if patch.get_linewidth() == 1.2]
    assert len(marks) == 6
    grid = Grid.of(item.size, 7)
    for word, mark in enumerate(marks):
        row, column = divmod(word + 1, grid.columns)
        left, top = MARGIN + column * grid.step[0], MARGIN + 0.34 + row * grid.step[1] + LINE
        y, x = divmod(ORDER[word], 3)
        assert mark.get_xy() == pytest.approx((left + x * grid.width / 3, top + y * grid.height / 2))
        assert (mark.get_width(), mark.get_height()) == pytest.approx((grid.width / 3, grid.height / 2))
    assert "outlined: the chosen cell" in texts(figure)[-1]
    assert not permuted().is_hard.any()
    assert not permuted(maps=np.ones((6, 6))).is_hard.any()


@pytest.mark.parametrize(
    ("size", "count"), [((64, 64), 13), ((96, 900), 236), ((96, 600), 30), ((900, 40), 9), ((1, 30000), 3)]
)
def test_panels_lie_beside_each_other_within_the_page(size, count):
    grid = Grid.of(size, count)
    assert grid.columns * grid.rows >= count > grid.columns * (grid.rows - 1)
    across = grid.columns * grid.step[0] - GAP
    assert across <= 11.3
    assert grid.step[0] >= grid.width + GAP
    if grid.height > 1 / DPI:
        assert grid.width / grid.height == pytest.approx(size[1] / size[0], rel=0.05)


def test_a_caption_of_235_words_has_pages(tmp_path):
    item = CaptionedImage(np.full((48, 320), 255, np.uint8), ["\\frac"] * 235, np.full((235, 3, 20), 1 / 60))
    pages = list(draw_captions([item], paged=True))
    assert all(page.get_figheight() <= 11.01 for page in pages)
    assert sum(text == "\\frac" for page in pages for text in texts(page)) == 235
    (single,) = draw_captions([item])
    assert single.get_figheight() < 60
    plot_captioned_image([item, permuted()], tmp_path / "a.pdf")
    content = (tmp_path / "a.pdf").read_bytes()
    assert len(re.findall(rb"/Type /Page\b", content)) == len(pages) + 1
    long = CaptionedImage(np.zeros((32, 32), np.uint8), ["w"] * 4000, np.ones((4000, 1, 1)))
    with pytest.raises(UnsupportedError, match=r"4000 words.*write \.pdf"):
        next(draw_captions([long]))


def data_of(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1])


def test_the_page_holds_each_image_once_and_the_maps_as_bytes(tmp_path):
    colour = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    path = plot_captioned_image([permuted(), permuted(image=colour)], tmp_path / "a.html")
    first, second = data_of(path)["items"]
    assert path.read_text(encoding="utf-8").count("data:image/png;base64,") == 2
    content = base64.b64decode(second["image"].split(",")[1])
    pixels = matplotlib.image.imread(io.BytesIO(content))
    np.testing.assert_array_equal((pixels * 255).round().astype(np.uint8), colour)
    maps = np.frombuffer(base64.b64decode(first["maps"]), np.uint8).reshape(6, 2, 3)
    assert maps.reshape(6, 6).argmax(axis=1).tolist() == ORDER
    assert (maps.max(), maps.min()) == (254, round(254 * 0.05))
    assert first["largest"] == [0.8] * 6
    assert (first["size"], first["grid"], first["cell"]) == ([32, 48], [2, 3], [16, 16])
    assert (first["paper"], second["paper"], first["sums"]) == (True, False, True)


def test_a_large_image_is_embedded_smaller_with_the_same_geometry(tmp_path):
    image = np.zeros((40, 30000), np.uint8)
    image[:, 15000:] = 255
    item = CaptionedImage(image, ["x"], np.ones((1, 1, 750)) / 750, cell_size=40)
    entry = data_of(plot_captioned_image(item, tmp_path / "a.html"))["items"][0]
    pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(entry["image"].split(",")[1])))
    assert pixels.size <= 1_020_000
    assert entry["size"] == [40, 30000]
    half = pixels.shape[1] // 2
    assert (pixels[:, : half - 2].max(), pixels[:, half + 2 :].min()) == (0, 1)
    plot_captioned_image(item, tmp_path / "a.png")


def test_the_page_asks_nothing_of_anybody_and_text_stays_text(tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    item = permuted(tokens=[evil, *WORDS[1:]], text=evil, note=evil)
    text = plot_captioned_image(item, tmp_path / "a.html", title=evil).read_text(encoding="utf-8")
    text = re.sub(r'"maps":"[^"]*"', "", re.sub(r'base64,[^"]*', "", text))
    assert not re.search(r"https?:|@import|url\(|[\"\'(=]//|\bfetch\b|XMLHttpRequest|import\(", text, re.IGNORECASE)
    assert "<img" not in text
    assert "innerHTML" not in text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'")
    assert "img-src data:" in policy
    assert "prefers-color-scheme: dark" in text


def test_weights_that_are_no_numbers_are_shown_as_such(tmp_path):
    maps = permuted().maps.copy()
    maps[0, 1, 1] = np.nan
    maps[1] = np.inf
    item = permuted(maps=maps)
    assert np.isnan(item.largest[1])
    assert item.largest[0] == pytest.approx(0.04)
    figure = next(draw_captions([item]))
    assert "–" in texts(figure)
    assert "not a number" in texts(figure)
    entry = data_of(plot_captioned_image(item, tmp_path / "a.html"))["items"][0]
    content = base64.b64decode(entry["maps"])
    assert [i for i, byte in enumerate(content[:12]) if byte == 255] == [4, *range(6, 12)]
    assert entry["largest"][1] is None


@pytest.mark.parametrize("suffix", ["png", "html", "svg"])
@pytest.mark.parametrize(
    "item",
    [
        CaptionedImage(np.zeros((5, 7), np.uint8), [], np.zeros((0, 2, 2))),
        CaptionedImage(np.zeros((5, 7), np.uint8), [], [], grid=(5, 7)),
        CaptionedImage(np.zeros((1, 1), np.uint8), ["x"], [[[1.0]]]),
        CaptionedImage(np.zeros((1, 1), np.uint8), ["x"], [[[0.0]]]),
        CaptionedImage(np.zeros((1, 3000), np.uint8), ["x"], [[[1.0]]], cell_size=3000),
        CaptionedImage(np.zeros((3000, 1), np.uint8), ["x"], [[[-1.0]]], cell_size=3000),
        permuted(tokens=["שלום", "<b>", "$x^2$", "{\\bf x}", "", "x" * 500], text="مرحبا " * 50),
    ],
)
@pytest.mark.filterwarnings("ignore:No installed font")
def test_odd_captions_are_drawn(tmp_path, item, suffix):
    assert plot_captioned_image(item, tmp_path / f"a.{suffix}").stat().st_size > 500


@pytest.mark.filterwarnings("ignore:No installed font")
def test_no_word_leaves_its_panel():
    item = permuted(tokens=["x" * 500, "漢" * 80, *WORDS[2:]])
    figure = next(draw_captions([item]))
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    width = Grid.of(item.size, 7).width * DPI
    for text, box in zip(figure.axes[0].texts, boxes, strict=True):
        if text.get_text().startswith(("x", "漢", "□")):
            assert box.width < width


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"maps": np.ones((6, 7))}, ShapeError, r"(?s)S = h·w.*maps  \(6, 7\).*grid  \(2, 3\): S = 6"),
        ({"maps": np.ones((6, 3, 2))}, ShapeError, r"(?s)maps  \(6, 3, 2\).*grid  \(2, 3\)"),
        ({"grid": (1, 6), "cell_size": 16}, ShapeError, r"(?s)do not cover.*2 × 3 cells of 16 × 16.*1 × 6 cells"),
        ({"grid": (3, 2), "cell_size": 16}, ShapeError, r"(?s)do not cover.*3 × 2 cells\n.*not \(w, h\)"),
        ({"grid": (3, 2)}, ShapeError, r"(?s)cells of 10\.7 × 24 pixels.*not \(w, h\)"),
        ({"grid": None}, ShapeError, r"maps must be \(T, h, w\); got \(6, 6\)\. With maps \(T, S\), give the grid"),
        ({"tokens": None}, ShapeError, "list of words; got None"),
        ({"grid": 6}, ShapeError, "grid must be .*got 6"),
        ({"grid": (1.5, 4)}, ShapeError, r"grid must be .*got \(1\.5, 4\)"),
        ({"grid": (2, 0)}, ShapeError, r"grid must be .*got \(2, 0\)"),
        ({"maps": np.ones((6, 0, 3)), "grid": None}, ShapeError, "maps must have cells"),
        ({"tokens": WORDS[:3]}, ShapeError, r"(?s)there are 3 words, and maps is \(6, 2, 3\).*transposed"),
        ({"tokens": "a red cat"}, ShapeError, "list of words; got 'a red cat'"),
        ({"image": np.zeros((3, 32, 48), np.uint8)}, ShapeError, r"(?s)got \(3, 32, 48\).*not \(C, H, W\)"),
        ({"image": np.zeros((32, 48, 4), np.uint8)}, ShapeError, r"C = 1 or 3, not empty; got \(32, 48, 4\)"),
        ({"image": np.zeros((0, 48), np.uint8)}, ShapeError, "not empty"),
        ({"image": np.zeros((32, 48))}, ShapeError, r"(?s)uint8, with 255 for white; got float64.*\* 255"),
        ({"cell_size": 0}, RegardError, "cell_size must be .* got 0"),
        ({"cell_size": (16, float("nan"))}, RegardError, "cell_size must be"),
        ({"cell_size": "16"}, RegardError, "cell_size must be .* got '16'"),
        ({"mask": np.ones((2, 3), bool)}, RegardError, "mask needs the cell_size"),
        ({"mask": np.ones((2, 3)), "cell_size": 16}, ShapeError, r"mask must be bool of shape .* got float64 \(2, 3\)"),
        ({"mask": np.eye(2, 3, dtype=bool), "cell_size": 16}, ShapeError, "at the top left.* 2 are real"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        permuted(**changes)


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(RegardError, match=r"png shows one caption; got 2\. Write \.html or \.pdf"):
        plot_captioned_image([permuted()] * 2, tmp_path / "a.png")
    with pytest.raises(RegardError, match="captions is empty"):
        plot_captioned_image([], tmp_path / "a.html")
    with pytest.raises(RegardError, match="expected one of"):
        plot_captioned_image(permuted(), tmp_path / "a.gif")
    with pytest.raises(RegardError, match=r"captions\[1\] must be a CaptionedImage; got str"):
        plot_captioned_image([permuted(), "x"], tmp_path / "a.html")
    for highest in (0, math.inf, "most", None):
        with pytest.raises(RegardError, match="highest must be 'word', 'largest' or a weight above 0"):
            plot_captioned_image(permuted(), tmp_path / "a.html", highest=highest)


NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node to run the page's script")


def driven(path, item, *events, painted=False, **options):
    """What the page's script shows at first and after each event."""
    plot_captioned_image(item, path, **options)
    command = [NODE, Path(__file__).with_name("caption_page.mjs"), path, json.dumps(events), *["painted"] * painted]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@needs_node
def test_pointing_at_the_image_lights_the_words_that_looked_there(tmp_path):
    first = driven(tmp_path / "a.html", permuted())["log"][0]
    assert (first["lit"], first["here"], first["text"]) == ([], [], "")
    height, width = first["size"]
    centres = [((x + 0.5) / 3 * width, (y + 0.5) / 2 * height) for y in range(2) for x in range(3)]
    maps = permuted().maps * (permuted().maps > 0.1)
    log = driven(tmp_path / "a.html", permuted(maps=maps), *(("point", at) for at in centres), ("leave", None))["log"]
    assert [one["lit"] for one in log[1:7]] == [[ORDER.index(cell)] for cell in range(6)]
    assert log[5]["text"] == "row 1, column 1 · a 0.80"
    (x, y, wide, tall), _ = log[5]["boxes"]
    assert (x + wide / 2, y + tall / 2) == pytest.approx(centres[4], abs=2)
    assert log[-1]["lit"] == []


@needs_node
@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("highest", ["word", 0.5])
def test_the_page_and_the_picture_paint_the_same(tmp_path, smooth, highest):
    maps = np.random.default_rng(0).random((6, 2, 3))
    maps[2, 0, 1] = np.nan
    maps[3] = np.eye(2, 3)[[1, 0]] * np.array([[0], [1]])
    item = permuted(maps=maps, grid=None)
    events = [("over", word) for word in range(6)]
    log = driven(tmp_path / "a.html", item, *events, painted=True, smooth=smooth, highest=highest)["log"]
    for word, one in enumerate(log[1:]):
        height, width = one["size"]
        found = np.array(one["painted"]).reshape(height, width, 4)[..., :3] / 255
        most = item.largest[word] if highest == "word" else highest
        values = strengths(item, word, (height, width), smooth=smooth)
        expected = tinted(np.ones((height, width, 1)), values / most)
        assert np.abs(found - expected).max() < 0.03
        assert one["here"] == [word]
        assert len(one["boxes"]) == 2 * bool(item.is_hard[word])


@needs_node
def test_on_the_page_too_no_place_has_less_than_the_least_weight(tmp_path):
    maps = np.full((6, 2, 3), 0.1)
    maps[0, 1, 0] = 1.0  # cubic convolution would fall below 0.1 two cells from it
    log = driven(tmp_path / "a.html", permuted(maps=maps, grid=None), ("over", 0), painted=True, smooth=True)["log"]
    height, width = log[1]["size"]
    found = np.array(log[1]["painted"]).reshape(height, width, 4)[..., :3].sum(2)
    centre = found[height // 4, width - 1]  # the upper right cell has 0.1
    assert found.max() <= centre + 1


@needs_node
def test_keys_move_and_a_click_keeps_what_is_shown(tmp_path):
    events = [
        ("click", 2), ("over", 4), ("out", 4), ("list", "ArrowRight"), ("list", "End"), ("list", "ArrowDown"),
        ("list", "Home"), ("list", "Escape"), ("key", "ArrowDown"), ("key", "ArrowRight"), ("key", "End"),
        ("key", "Enter"), ("leave", None), ("key", "Escape"), ("tap", [1, 1]), ("leave", None), ("tap", [1, 1]),
    ]  # fmt: skip
    log = driven(tmp_path / "a.html", permuted(), *events)["log"][1:]
    assert [one["here"] for one in log[:8]] == [[2], [4], [2], [1], [5], [5], [0], []]
    assert log[0]["pressed"] == [2]
    assert log[0]["text"] == "cat · largest weight 0.80 in row 0, column 0"
    places = [re.match(r"row (\d), column (\d)", one["text"]) for one in log[8:15]]
    assert [tuple(map(int, place.groups())) if place else None for place in places] == [
        (1, 0), (1, 1), (1, 2), (1, 2), (1, 2), None, (0, 0),
    ]  # fmt: skip
    assert log[15]["text"].startswith("row 0, column 0"), "a touch keeps its cell"
    assert log[16]["text"].startswith("row 0, column 0")


@needs_node
def test_the_page_says_what_its_colours_mean(tmp_path):
    page = driven(tmp_path / "a.html", [permuted()] * 3)
    assert (page["captions"], page["chips"]) == (3, WORDS)
    assert page["legend"] == "the largest weight of each word; the weights of a word sum to 1"
    page = driven(tmp_path / "a.html", permuted(), ("scale", "common"))
    assert page["legend"] == "weight 0.8; the weights of a word sum to 1"
    assert driven(tmp_path / "a.html", permuted(maps=np.ones((6, 6))), highest=2)["legend"] == "weight 2"


def test_the_page_says_at_its_top_that_words_are_pointed_at(tmp_path):
    caption = CaptionedImage(np.full((4, 8), 255, np.uint8), ["a", "b"], np.eye(2), grid=(1, 2))
    page = plot_captioned_image(caption, tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.index("Point at a word to see what it attended to") < page.index('<main id="captions">')
