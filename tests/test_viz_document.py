"""Pictures and pages of classified documents."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
import torch

from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.viz import WeightedDocument, plot_document
from regard.viz.document_picture import draw_documents

WORDS = [["so", "good", "."], ["yes"], []]
WEIGHTS = [[0.1, 0.6, 0.3, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0] * 4]
DEEP = WeightedDocument(WORDS, WEIGHTS, [0.64, 0.36, 0.0, 0.0], predicted="pos", probability=0.9, label="pos")
FLAT = WeightedDocument([["so", "bad"]], [[0.2, 0.8]], predicted="pos", label="neg")


class Page(HTMLParser):
    """The elements of a page, with their attributes, and its texts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.elements[-1][0], data.strip()))


def page(path, documents, **options):
    plot_document(documents, path, **options)
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
def test_a_word_counts_by_its_weight_and_the_root_of_its_sentence_s(make):
    document = WeightedDocument(WORDS, make(WEIGHTS), make([0.64, 0.36, 0.0, 0.0]))
    for found, expected in zip(document.emphasis(), [[0.08, 0.48, 0.24], [0.6], []], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    for found, expected in zip(document.emphasis("product"), [[0.064, 0.384, 0.192], [0.36], []], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert FLAT.emphasis()[0].tolist() == [0.2, 0.8]


def test_weights_with_gradients_can_be_drawn(tmp_path):
    weights = torch.tensor(WEIGHTS, requires_grad=True)
    plot_document(WeightedDocument(WORDS, weights, weights[:, 0] / 2), tmp_path / "a.html")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "html"])
def test_every_kind_of_file_is_written(tmp_path, suffix):
    path = plot_document([DEEP, FLAT], tmp_path / "new" / f"a.{suffix}", title="t")
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!DOCTYPE"}[suffix]
    assert path.read_bytes().startswith(start)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_a_picture_has_all_words_labels_and_the_sentences_weights():
    figure = draw_documents([DEEP], title="Reviews", highest=0.6)
    assert texts(figure) == [
        "Reviews", "predicted", "pos", "0.90", "· true", "pos", "✓",
        "0.64", "so", "good", ".", "0.36", "yes", "0.00",
        "0 to 0.6: √sentence weight × word weight", "0 to 1: sentence weight",
    ]  # fmt: skip
    assert texts(draw_documents([FLAT])) == [
        "predicted", "pos", "· true", "neg", "✗", "so", "bad", "0 to 1: word weight",
    ]  # fmt: skip


def test_words_of_a_picture_neither_overlap_nor_leave_the_page():
    words = [f"word{'y' * (i % 9)}" for i in range(200)] + ["x" * 500]
    figure = draw_documents([WeightedDocument([words], [np.full(201, 1 / 201)], [1.0])])
    boxes = [patch.get_bbox() for patch in figure.axes[0].patches if hasattr(patch, "get_boxstyle")]
    assert len(boxes) == 201
    width, height = figure.get_size_inches()
    assert all(0 < box.x0 < box.x1 <= width and 0 < box.y0 < height for box in boxes)
    for first, second in pairwise(boxes):
        assert second.x0 > first.x1 or second.y0 > first.y0 + first.height


def test_darker_words_have_white_ink():
    figure = draw_documents([FLAT], highest=0.8)
    colours = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert colours["bad"] == "white"
    assert colours["so"] != "white"


def test_weights_that_are_no_numbers_are_shown_as_such(tmp_path):
    document = WeightedDocument([["a", "b"]], [[np.nan, 1.0]], [np.nan])
    assert "–" in texts(draw_documents([document]))
    _, parsed = page(tmp_path / "a.html", document)
    assert [a["class"] for tag, a in parsed.elements if tag == "span" and "title" in a] == ["nan", "nan"]


def test_documents_and_sentences_of_nothing_are_drawn(tmp_path):
    for document in (WeightedDocument([], []), WeightedDocument([], [], []), WeightedDocument([[]], [[]], [0.0])):
        for suffix in ("png", "html"):
            plot_document(document, tmp_path / f"a.{suffix}")


def test_a_page_has_words_weights_and_labels_and_asks_nothing_of_anybody(tmp_path):
    text, parsed = page(tmp_path / "a.html", [DEEP, FLAT], title="Reviews")
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<script|\bsrc=|\bhref=", text, re.IGNORECASE)
    policy = next(a["content"] for t, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    words = [(a["class"], a["title"]) for tag, a in parsed.elements if tag == "span" and "title" in a]
    assert words[1] == ("w19", "weight 0.6000, sentence 0.6400")
    assert words[-1] == ("w32", "weight 0.8000")
    assert [data for tag, data in parsed.texts if tag == "small"] == ["0.64", "0.36", "0.00"]
    bars = [a["class"] for tag, a in parsed.elements if tag == "i" and a["class"].startswith("s")]
    assert bars == ["s20", "s12", "s0"]
    assert [a.get("class") for tag, a in parsed.elements if tag == "b"] == ["right", None, "wrong", None]
    assert "prefers-color-scheme: dark" in text
    assert dict(parsed.elements)["html"]["lang"] == "en"


@pytest.mark.parametrize(
    "evil", ["</span><img src=x onerror=alert(1)>", '" onclick="x', "&lt;b&gt;", "\x1b[2J", "\ud800"]
)
def test_words_labels_and_titles_are_text_whatever_they_contain(tmp_path, evil):
    def made(text):
        return WeightedDocument([[text, "b"]], [[0.5, 0.5]], [1.0], predicted=text, label=text)

    _, usual = page(tmp_path / "a.html", made("t"), title="t")
    text, parsed = page(tmp_path / "b.html", made(evil), title=evil)
    assert [(tag, *a) for tag, a in parsed.elements] == [(tag, *a) for tag, a in usual.elements]
    assert "\x1b" not in text
    figure = draw_documents([made("$x^2$ " + evil)], title=evil)
    assert "$x^2$" in "".join(texts(figure))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((WORDS, WEIGHTS[:2]), r"sentences have \[3, 1, 0\] words, the weights are \[4, 4\]"),
        ((WORDS, [[1.0], [1.0], []]), r"the weights are \[1, 1, 0\]"),
        ((WORDS, WEIGHTS, [1.0]), r"\(S=3,\) or longer; got 1"),
        ((["so good"], [[1.0]]), "lists of words; got a text"),
    ],
)
def test_weights_that_do_not_fit_their_words_are_refused(arguments, message):
    with pytest.raises(ShapeError, match=message):
        WeightedDocument(*arguments)


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(RegardError, match=r"expected one of .png .svg .pdf .html"):
        plot_document(DEEP, tmp_path / "a.txt")
    with pytest.raises(RegardError, match="no documents"):
        plot_document([], tmp_path / "a.png")
    with pytest.raises(RegardError, match=r"highest must be .*0"):
        plot_document(DEEP, tmp_path / "a.png", highest=0)
    with pytest.raises(RegardError, match=r"emphasis must be .*'sum'"):
        plot_document(DEEP, tmp_path / "a.png", emphasis="sum")
    long = WeightedDocument([["a"]] * 1501, [[1.0]] * 1501)
    with pytest.raises(UnsupportedError, match=r"1,501 lines(.|\n)*\.html"):
        plot_document(long, tmp_path / "a.png")
    plot_document(long, tmp_path / "a.html")
