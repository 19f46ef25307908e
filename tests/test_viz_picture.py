"""Pictures of alignments: what is dark, what is said, what is left out."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
import torch

from regard.errors import RegardError, ShapeError
from regard.viz import load_alignment, plot_alignment, plot_curves, save_alignment
from regard.viz.aligned import Aligned, read
from regard.viz.colours import ramp
from regard.viz.fonts import MISSING, Typesetter
from regard.viz.labels import shortened, visible
from regard.viz.layout import POINTS, width_of
from regard.viz.picture import DPI, draw, pooled
from regard.viz.sheet import sheet


@dataclass
class Prediction:
    """Like a decoder's result, as far as pictures look."""

    alignment: Any
    source_tokens: Any
    tokens: Any
    text: str = ""
    alignments: dict[str, Any] = field(default_factory=dict)


def permutation(*order: int, size: int) -> np.ndarray:
    return np.eye(size)[list(order)]


def tick_labels(figure, panel: int = 0):
    axes = figure.axes[panel]
    across, down = axes.get_xticklabels(), axes.get_yticklabels()
    return [label.get_text() for label in across], [label.get_text() for label in down]


def caption(figure) -> str:
    return " | ".join(" ".join(text.get_text().split("\n")) for text in figure.texts)


def headings(figure) -> list[str]:
    """The texts above rows of panels."""
    return [text.get_text() for text in figure.texts if text.get_fontsize() == POINTS]


def num_arrows(figure) -> int:
    """Ends of the colour bar that say that weights go on."""
    return len([patch for patch in figure.axes[-1].patches if len(patch.get_path()) in (3, 4, 5)])


def dark_cells(path: Path, steps: int, positions: int) -> np.ndarray:
    """Which cells of the matrix are dark, read from the pixels: the first group of dark columns is the matrix."""
    dark = matplotlib.image.imread(path)[..., :3].mean(axis=2) < 0.25
    lightness = np.convolve(dark.sum(axis=0) > 30, np.ones(9), "same") > 0  # bridges the lines between cells
    edges = np.flatnonzero(np.diff(lightness.astype(int), prepend=0, append=0))
    matrix = dark[:, edges[0] + 4 : edges[1] - 4]
    rows = np.flatnonzero(matrix.sum(axis=1) > 30)
    matrix = matrix[rows[0] : rows[-1] + 1]
    y = ((np.arange(steps) + 0.5) * matrix.shape[0] / steps).astype(int)
    x = ((np.arange(positions) + 0.5) * matrix.shape[1] / positions).astype(int)
    return matrix[np.ix_(y, x)]


def test_the_pixels_of_a_rectangular_alignment_are_dark_where_its_weight_is(tmp_path):
    a = permutation(2, 0, 4, 1, 3, 0, 4, size=5)
    plot_alignment(a, tmp_path / "a.png", list("abcde"), list("TUVWXYZ"))
    np.testing.assert_array_equal(dark_cells(tmp_path / "a.png", 7, 5), a == 1)


def test_the_labels_of_a_rectangular_permutation_name_the_cells_that_are_dark():
    order = (2, 0, 4, 1, 3, 0, 4)
    figure = draw(read(permutation(*order, size=5), list("abcde"), list("TUVWXYZ")))
    axes = figure.axes[0]
    (image,) = axes.images
    left, right, bottom, top = image.get_extent()
    assert image.origin == "upper"
    assert (bottom > top, left < right) == (True, True)
    sources, targets = tick_labels(figure)
    places = [[int(place) for place in ticks] for ticks in (axes.get_yticks(), axes.get_xticks())]
    dark = {
        (targets[i], sources[j])
        for i, t in enumerate(places[0])
        for j, s in enumerate(places[1])
        if image.get_array()[t, s]
    }
    assert dark == {("TUVWXYZ"[t], "abcde"[s]) for t, s in enumerate(order)}


def test_source_labels_stand_on_top_and_target_labels_run_downwards():
    figure = draw(read(np.ones((2, 3)) / 3, ["un", "deux", "trois"], ["one", "two"]))
    axes = figure.axes[0]
    assert tick_labels(figure) == (["un", "deux", "trois"], ["one", "two"])
    assert axes.get_ylim() == (1.5, -0.5)
    assert axes.xaxis.get_ticks_position() == "top"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source", "target")


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".HTML", b"<!DOCTYPE html>")]
)
def test_the_suffix_chooses_the_kind_of_file_and_missing_folders_are_made(tmp_path, suffix, start):
    path = tmp_path / "new" / f"a{suffix}"
    assert plot_alignment(torch.eye(2), path) == (path,)
    assert path.read_bytes().startswith(start)


def test_an_unknown_suffix_is_refused_with_the_right_ones(tmp_path):
    with pytest.raises(RegardError, match=r"a\.jpg.*\.png \.svg \.pdf \.html, got '\.jpg'"):
        plot_alignment(np.eye(2), tmp_path / "a.jpg")
    assert not list(tmp_path.iterdir())


def test_a_prediction_brings_its_tokens_and_its_end_symbols():
    figure = draw(read(Prediction(torch.ones(3, 3) / 3, list("ab"), ["x", "y"])))
    assert tick_labels(figure) == (["a", "b", "</s>"], ["x", "y", "</s>"])


def test_the_end_symbol_can_be_left_out_and_the_weight_on_it_is_told():
    p = Prediction([[0.75, 0.25], [0.35, 0.65], [0.0, 1.0]], ["a"], ["x", "y"])
    (seen,) = read(p, end_symbol=False)
    np.testing.assert_allclose(seen.alignment, [[0.75], [0.35]])
    figure = draw([seen])
    assert tick_labels(figure) == (["a"], ["x", "y"])
    assert "</s> left out: 45.0% of the weight lay on it" in caption(figure)


def test_a_caption_below_a_short_alignment_does_not_cross_the_colour_bar():
    (seen,) = read(Prediction([[0.75, 0.25], [0.0, 1.0]], ["a"], ["x"]), end_symbol=False)
    figure = draw([seen])
    figure.canvas.draw()
    (words,) = (text for text in figure.texts if "left out" in text.get_text())
    assert not words.get_window_extent().overlaps(figure.axes[-1].get_window_extent())


def test_leaving_out_an_end_symbol_without_tokens_warns_that_it_does_nothing():
    with pytest.warns(UserWarning, match="nothing without tokens"):
        read(np.eye(2), end_symbol=False)


@pytest.mark.parametrize(
    "padding",
    [
        {"source_length": 2, "target_length": 3},
        {"source_mask": torch.tensor([True, True, False, False]), "target_mask": np.arange(5) < 3},
    ],
)
@pytest.mark.parametrize("tokens", [("ab", "xyz"), ("abcd", "xyzvw")])
def test_padding_is_left_out_and_tokens_may_name_it_or_not(padding, tokens):
    a = np.arange(20.0).reshape(5, 4)
    (seen,) = read(a, list(tokens[0]), list(tokens[1]), **padding)
    np.testing.assert_array_equal(seen.alignment, a[:3, :2])
    assert (seen.source_tokens, seen.tokens) == (("a", "b"), ("x", "y", "z"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"source_tokens": list("abcde")}, "source_tokens must name 3 positions.*got 5 tokens[\\s\\S]*transposed"),
        ({"target_tokens": []}, "target_tokens must name 2 positions"),
        ({"source_length": 4}, "source_length must be integers between 0 and 3; got 4"),
        ({"source_length": 1, "source_mask": [True] * 3}, "not both"),
        ({"target_mask": [1, 0]}, r"target_mask must be \(..., 2\) bool"),
        ({"alignment": np.ones((0, 2, 3))}, r"got shape \(0, 2, 3\)"),
        ({"alignment": [0.5, 0.5]}, r"\(T, S\), \(H, T, S\) or \(L, H, T, S\); got shape \(2,\)"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_came(arguments, text):
    arguments = {"alignment": np.ones((2, 3)), **arguments}
    with pytest.raises(ShapeError, match=text):
        read(**arguments)


def test_there_must_be_something_to_show():
    with pytest.raises(RegardError, match="no alignment"), pytest.warns(UserWarning, match="Prediction 0"):
        read([Prediction(None, [], [])])
    with pytest.raises(RegardError, match="no alignment"):
        read([])
    with pytest.raises(RegardError, match="their own tokens"):
        read([Prediction(np.eye(2), "ab", "ab")], ["a", "b"])


def test_layers_and_heads_are_a_grid_with_names():
    figure = draw(read(np.full((2, 3, 4, 5), 0.2)))
    *panels, bar = figure.axes
    assert [axes.texts[0].get_text() for axes in panels] == [f"head {h}" for _ in range(2) for h in range(3)]
    assert headings(figure) == ["layer 0", "layer 1"]
    tops = [round(axes.get_position().y1, 6) for axes in panels]
    assert tops[0] == tops[2] > tops[3] == tops[5]
    assert bar.get_ylabel() == "weight"
    assert tick_labels(figure, 0)[0]
    assert not tick_labels(figure, 3)[0], "only the first row shows source labels"


def test_several_predictions_share_a_page_with_their_own_tokens():
    first = Prediction(np.eye(2), ["a", "b"], ["x", "y"], "x y", {"cross": np.ones((2, 2, 2)) / 2})
    second = Prediction(np.eye(3), ["c", "d", "e"], ["z", "u", "v"], "z u v", {"cross": np.ones((2, 3, 3)) / 3})
    figure = draw(read([first, second]))
    assert tick_labels(figure, 1) == (["c", "d", "e"], ["z", "u", "v"])
    assert [axes.texts[0].get_text() for axes in figure.axes[:2]] == ["1 · x y", "2 · z u v"]
    with_heads = draw(read([first, second], heads=True))
    assert headings(with_heads) == ["1 · x y · prediction", "cross", "2 · z u v · prediction", "cross"]
    names = [text.get_text() for axes in with_heads.axes[:-1] for text in axes.texts]
    assert names == ["head 0", "head 1"] * 2
    assert "prediction: the alignment that predictions report" in caption(with_heads)


def test_the_scale_is_that_of_weights_and_says_when_weights_lie_above_it():
    plain, above = draw(read(np.full((2, 2), 0.01))), draw(read([[1.5, 0.0]]))
    image = plain.axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (0, 1)
    assert [image.norm.vmax for image in draw(read([[1.5, 0.0]]), highest=2.0).axes[0].images] == [2]
    assert num_arrows(plain) == 0
    assert num_arrows(above) == 1
    assert num_arrows(draw(read([[1.5, -0.5]]))) == 2


def test_weights_that_are_no_numbers_are_shown_and_told():
    figure = draw(read([[np.nan, 1.0], [0.5, np.inf]]))
    assert "not a finite number" in caption(figure)


def test_dollars_and_underscores_are_no_mathematics(tmp_path):
    tokens = ["$x_1$", "a_b", "$"]
    plot_alignment(np.eye(3), tmp_path / "a.svg", tokens, tokens, title="$\\frac{$ costs $5")
    figure = draw(read(np.eye(3), tokens, tokens), title="$x$")
    assert tick_labels(figure)[0] == tokens
    assert not any(label.get_parse_math() for label in [*figure.axes[0].get_xticklabels(), *figure.texts])


def test_invisible_characters_are_made_visible():
    figure = draw(read(np.eye(4), [" ", "new\nline", "\x01", "\ud800"], ["", "\t", "\u0301", "a" * 50]))
    assert tick_labels(figure)[0] == ["␣", "new⏎line", "‹U+0001›", "‹U+D800›"]
    assert tick_labels(figure)[1] == ["∅", "⇥", "◌\u0301", "a" * 23 + "…"]


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
SCOTLAND = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbsct") + "\U000e007f"


@pytest.mark.parametrize(
    "token", [FAMILY, "می\u200cخواهم", "क्\u200dष", "ශ්\u200d", "র‍্যাব", SCOTLAND, "❤\ufe0f\u200d\U0001f525", "\u0600١٢"]
)
def test_what_shapes_the_characters_beside_it_stays_as_it_is(token):
    assert visible(token) == token


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("\u200d", "‹ZWJ›"),
        ("\u200c", "‹ZWNJ›"),
        ("\u200cab", "‹ZWNJ›ab"),
        ("ab\u200c", "ab‹ZWNJ›"),
        ("a\u200d b", "a‹ZWJ›␣b"),
        ("a\u200bb", "a‹ZWSP›b"),
        ("\ufe0f", "‹U+FE0F›"),
        ("\u00a0", "‹NBSP›"),
        ("\u094d", "◌\u094d"),
    ],
)
def test_what_cannot_be_seen_and_stands_for_itself_is_named(token, label):
    assert visible(token) == label


def test_a_label_is_cut_between_the_characters_that_a_reader_counts():
    assert shortened(FAMILY * 9, 8) == FAMILY * 7 + "…"
    assert shortened("क्षे" * 8, 8).endswith("…")
    assert not shortened("e\u0301" * 30, 24)[:-1].endswith("e")


def test_scripts_of_the_base_font_need_no_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_alignment(np.eye(3), tmp_path / "a.png", ["каша", "Ἑλλάς", "ɹɪˈɡɑːd"], ["␣", "▁the", "é"])


def test_characters_without_a_glyph_are_boxes_with_one_warning(tmp_path):
    absent = "\U0001fbff\U0010fffd"  # a symbol that few fonts have, and a private use character
    with pytest.warns(UserWarning, match=r"U\+10FFFD.*\.html") as caught:
        plot_alignment(np.eye(2), tmp_path / "a.png", [absent, "b"], [absent, "d"])
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="No installed font"):
        assert Typesetter([absent]).drawable("x\U0010fffd") == "x" + MISSING


def test_labels_without_glyphs_have_stand_ins_that_do_not_overlap():
    word = "\U0010fffd" * 9
    with pytest.warns(UserWarning, match="No installed font"):
        figure = draw(read(np.eye(3), [word, "\U0010fffd", "a" + word], [word, "b", "\u200c"]))
    assert tick_labels(figure) == (["#0", "U+10FFFD", "#2"], ["#0", "b", "‹ZWNJ›"])
    assert "no font is installed" in caption(figure)
    for label in figure.axes[0].get_yticklabels():
        assert label.get_window_extent().width / DPI <= width_of(label.get_text()) + 0.05


def test_upright_stand_ins_stand_beside_each_other():
    with pytest.warns(UserWarning, match="No installed font"):
        figure = draw(read(np.eye(30), ["\U0010fffd" * 9] * 30))
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) > 10
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_a_character_that_only_shapes_others_needs_no_font():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Typesetter(["a\U000e0101b"]).drawable("a\U000e0101b") == "ab"


def test_many_heads_are_small_multiples_below_the_picture_of_the_prediction():
    cross = {f"decoder.{i}": np.random.default_rng(i).dirichlet(np.ones(5), (16, 4)) for i in range(12)}
    mean = np.mean(list(cross.values()), axis=(0, 1))
    figure = draw(read(Prediction(mean, list("abcde"), list("WXYZ"), "W", cross), heads=True))
    large, small, bar = figure.axes
    np.testing.assert_array_equal(large.images[0].get_array(), mean)
    assert tick_labels(figure) == (list("abcde"), list("WXYZ"))
    assert large.get_position().y0 > small.get_position().y1
    assert large.get_window_extent().height > small.get_window_extent().height / 12 * 3
    names = [text.get_text() for text in small.texts]
    assert names[:12] == list(cross)
    assert names[12:] == ["head 0", *map(str, range(1, 16))]
    assert len(small.patches) == 12 * 16
    assert bar.get_ylabel() == "weight"


def test_a_small_multiple_shows_the_weights_of_its_layer_and_head():
    heads = np.zeros((2, 16, 3, 2))
    heads[1, 5, 2, 0] = 1
    figure = draw(read(heads))
    large, small, _ = figure.axes
    np.testing.assert_allclose(large.images[0].get_array(), heads.mean((0, 1)))
    dark = np.argwhere(np.asarray(small.images[0].get_array())[..., :3].mean(axis=-1) < 0.3)
    width, height = sheet(read(heads)).cell
    frame = small.patches[16 + 5]
    left, top = frame.get_x(), frame.get_y()
    assert dark.min(axis=0) / DPI == pytest.approx([top + height * 2 / 3, left], abs=1.5 / DPI)
    assert dark.max(axis=0) / DPI == pytest.approx([top + height, left + width / 2], abs=1.5 / DPI)


def test_more_heads_than_fit_a_page_continue_in_the_next_row():
    rows = sheet(read(np.ones((50, 1, 1)))).rows
    assert [(label, len(heads)) for label, heads in rows] == [("0–29", 30), ("30–49", 20)]
    assert sheet(read(np.ones((30, 16, 1, 1)))).size[0] <= 11


def test_soft_alignments_can_be_scaled_to_their_largest_weight(tmp_path, monkeypatch):
    soft = [[0.02, 0.04], [0.01, float("nan")]]
    figures = []
    monkeypatch.setattr("regard.viz.picture.draw", lambda *a, **k: figures.append(draw(*a, **k)) or figures[-1])
    plot_alignment(soft, tmp_path / "a.png", highest="largest")
    plot_alignment([Prediction(soft, "ab", "xy"), Prediction([[0.3]], "a", "x")], tmp_path / "b.png", highest="largest")
    plot_alignment([[0.0]], tmp_path / "c.png", highest="largest")
    assert [figure.axes[0].images[0].norm.vmax for figure in figures] == [0.04, pytest.approx(0.3), 1.0]
    bar = figures[0].axes[-1]
    assert bar.get_ylabel() == "weight, up to the largest"
    assert [label.get_text() for label in bar.get_yticklabels()] == ["0", "0.01", "0.02", "0.03", "0.04"]
    for wrong in ("most", 0.0, None):
        with pytest.raises(RegardError, match="above 0, or 'largest'"):
            plot_alignment(soft, tmp_path / "d.png", highest=wrong)


def test_a_long_alignment_has_few_labels_and_keeps_its_peaks(tmp_path):
    figure = draw(read(np.eye(1000)))
    across, down = tick_labels(figure)
    assert len(across) <= len(down) <= 60
    assert (across[1], down[1]) == ("50", "20")
    assert "1 in 20 target labels shown" in caption(figure)
    lonely = np.zeros((5000, 3))
    lonely[4321, 1] = 1
    assert pooled(lonely, 1000, 1000).sum() == 1
    assert "largest weight of the cells" in caption(draw(read(lonely)))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1), (2, 0, 3)])
@pytest.mark.parametrize("suffix", [".png", ".html"])
def test_empty_and_single_alignments_are_drawn(tmp_path, shape, suffix):
    plot_alignment(np.ones(shape), tmp_path / f"a{suffix}", data="json")


def test_threads_draw_the_same_picture_and_pyplot_is_not_asked(tmp_path):
    def drawn(index: int) -> bytes:
        path = tmp_path / f"{index}.png"
        plot_alignment(np.eye(4), path, list("abcd"), list("abcd"))
        return path.read_bytes()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(drawn, range(6)))) == 1


def test_equal_steps_of_weight_are_steps_of_lightness_without_return():
    for dark in (False, True):
        luminance = ramp(64, dark=dark) @ [0.2126, 0.7152, 0.0722]
        assert (np.diff(luminance) > 0).all() if dark else (np.diff(luminance) < 0).all()
    assert ramp().min() >= 0
    assert ramp().max() <= 1


def test_curves_are_drawn_with_their_names(tmp_path):
    path = plot_curves(
        tmp_path / "error.svg",
        {"with attention": ([5, 10], torch.tensor([1.0, 2.0])), "_without $": (range(2), [3.0, float("nan")])},
        x_label="length",
        y_label="error",
        title="Error against length",
    )
    assert path.stat().st_size > 1000
    with pytest.raises(RegardError, match=r"\.png \.svg \.pdf"):
        plot_curves(tmp_path / "a.html", {"a": ([1], [1])}, x_label="", y_label="")
    with pytest.raises(RegardError, match=r"curves\['a'\].*\(1,\), \(2,\)"):
        plot_curves(path, {"a": ([1], [1, 2])}, x_label="", y_label="")
    with pytest.raises(RegardError, match="empty"):
        plot_curves(path, {}, x_label="", y_label="")


def test_layers_of_heads_are_rows_and_a_prediction_without_heads_is_one_of_its_own():
    heads = {f"cross.{layer}": np.full((3, 2, 2), 0.5) for layer in range(2)}
    (item,) = read(Prediction(np.full((2, 2), 0.5), ["a", "b"], ["x", "y"], alignments=heads), heads=True)
    *panels, _ = draw([item]).axes
    assert [text.get_text() for axes in panels for text in axes.texts] == [f"head {n}" for n in range(3)] * 2
    assert headings(draw([item])) == ["prediction", "cross.0", "cross.1"]
    tops = [round(axes.get_position().y1, 6) for axes in panels]
    assert tops[0] > tops[1] == tops[2] == tops[3] > tops[4] == tops[5] == tops[6]
    labelled = [bool(tick_labels(draw([item]), index)[0]) for index in range(7)]
    assert labelled == [True, True, True, True, False, False, False]  # a longer row has labels of its own


def test_layers_may_have_names(tmp_path):
    names = ["model.decoder.layers.10.encoder_attn.attention", "b"]
    weights = np.full((2, 2, 1, 1), 0.5)
    (item,) = read(weights, layers=names)
    assert [name for name, _ in item.panels()] == [f"{name}, head {head}" for name in names for head in range(2)]
    for suffix in ("json", "npz"):
        save_alignment(weights, tmp_path / f"a.{suffix}", layers=names)
        (loaded,) = load_alignment(tmp_path / f"a.{suffix}")
        assert loaded.layers == tuple(names)
        assert read([loaded])[0].layers == tuple(names)
    # a row of small multiples has the end of a long name
    assert [label for label, _ in sheet([item]).rows] == ["…ayers.10.encoder_attn.attention", "b"]
    for wrong in (["a"], ["a", "b", "c"]):
        with pytest.raises(ShapeError, match="layers must name the L layers"):
            read(weights, layers=wrong)
    with pytest.raises(ShapeError, match="layers must name the L layers"):
        read(weights[0], layers=["a", "b"])


def test_a_row_is_no_wider_than_a_page_and_names_than_their_panels():
    items = read([Prediction(np.full((20, 1, 1), 0.5), ["a"], ["x"], text="a long sentence " * 9) for _ in range(2)])
    figure = draw(items)
    assert figure.get_size_inches()[0] < 15
    lefts = [round(axes.get_position().x0, 6) for axes in figure.axes[:-1]]
    assert len(lefts) == 40
    assert lefts.count(lefts[0]) == 6, "three rows for each of the two"
    assert [words[:3] for words in headings(figure)] == ["1 ·", "2 ·"]
    squares = draw(
        read([Prediction(np.full((2, 2), 0.5), None, None, text="another long sentence " * 9) for _ in range(9)])
    )
    assert squares.get_size_inches()[0] < 9


def test_sides_may_have_other_names_and_a_prompt_its_end(tmp_path):
    item = Aligned(np.eye(3), tuple("abc"), tuple("bcd"), sides=("text before", "next token"), prompt=(2, 1))
    figure = draw(read(item))
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("text before", "next token")
    (lines,) = [each for each in figure.axes[0].collections if each.get_linestyle()[0][1]]
    assert [segment.tolist() for segment in lines.get_segments()] == [
        [[1.5, -0.5], [1.5, 2.5]],
        [[-0.5, 0.5], [2.5, 0.5]],
    ]
    assert "dashed: the end of the prompt" in caption(figure)
    for suffix in ("json", "npz"):
        save_alignment(item, tmp_path / f"a.{suffix}")
        (loaded,) = load_alignment(tmp_path / f"a.{suffix}")
        assert (loaded.sides, loaded.prompt) == (item.sides, item.prompt)


def test_a_long_title_goes_on_in_the_next_line_and_is_cut_in_the_third():
    figure = draw(read(np.eye(2)), title="so many words " * 50)
    (title,) = [text.get_text() for text in figure.texts if text.get_text().startswith("so many")]
    assert title.count("\n") == 2
    assert title.endswith("…")
    assert figure.get_size_inches()[0] < 6


def test_layers_without_heads_have_their_names_below_and_an_only_attention_is_shown_once():
    def predictions(count):
        weights = [{f"cross.{i}": np.full((1, 2, 2), 0.5 - i / 10) for i in range(count)} for _ in range(2)]
        return [Prediction(np.full((2, 2), 0.5), list("ab"), list("xy"), "x y", each) for each in weights]

    figure = draw(read(predictions(2), heads=True))
    assert headings(figure) == ["1 · x y", "2 · x y"]
    names = [text.get_text() for axes in figure.axes[:-1] for text in axes.texts]
    assert names == ["prediction", "cross.0", "cross.1"] * 2
    figure = draw(read(predictions(1), heads=True))
    assert [text.get_text() for axes in figure.axes[:-1] for text in axes.texts] == ["1 · x y", "2 · x y"]
    assert "prediction:" not in caption(figure)
