"""The HTML page: self-contained, small, and harmless whatever the tokens are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from regard.viz import plot_alignment


class Page(HTMLParser):
    """What a browser's parser sees: elements, and the text of each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.elements[-1][0], data))

    @property
    def data(self):
        return json.loads(next(text for tag, text in self.texts if tag == "script"))


def page(path, alignment, *arguments, **options) -> tuple[str, Page]:
    plot_alignment(alignment, path, *arguments, **options)
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.html"


def test_the_page_asks_nothing_of_anybody(path):
    text, parsed = page(path, np.eye(3), list("abc"), list("xyz"))
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\bfetch\b|XMLHttpRequest|import\(", text, re.IGNORECASE)
    assert not [tag for tag, attributes in parsed.elements if attributes.keys() & {"src", "href", "action"}]
    policy = next(a["content"] for t, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_the_page_holds_tokens_and_weights(path):
    _, parsed = page(path, [[0.25, 0.75], [1.0, 0.0], [0.12344, 0.5]], ["a", " "], ["x", "y", "\n"], highest=0.8)
    (item,) = parsed.data["items"]
    assert (item["source"], item["target"]) == (["a", "␣"], ["x", "y", "⏎"])
    assert item["panels"] == [{"name": "", "layer": "", "head": "", "weights": [2500, 7500, 10000, 0, 1234, 5000]}]
    assert (parsed.data["unit"], parsed.data["highest"]) == (10000, 0.8)


@pytest.mark.parametrize(
    "evil", ["</script><img src=x onerror=alert(1)>", "<!--<script>", "&lt;b&gt;", "{{data}}", '"']
)
def test_tokens_and_titles_are_text_whatever_they_contain(path, evil):
    _, usual = page(path, np.eye(2), ["a", "b"], ["c", "d"], title="t")
    _, parsed = page(path, np.eye(2), [evil, "b"], ["c", evil], title=evil)
    assert [tag for tag, _ in parsed.elements] == [tag for tag, _ in usual.elements]
    shown = parsed.data["items"][0]["source"][0]
    assert shown.replace("␣", " ") == evil
    assert parsed.data["title"] == evil
    assert not set("<>&") & set(next(text for tag, text in parsed.texts if tag == "script"))
    assert ("title", evil) in parsed.texts
    assert ("h1", evil) in parsed.texts


def test_several_predictions_heads_and_layers_are_all_in_the_page(path):
    def prediction(size, text):
        heads = {"cross": np.full((2, size, size), 1 / size)}
        tokens = list("abcd"[:size])
        return SimpleNamespace(alignment=np.eye(size), source_tokens=tokens, tokens=tokens, text=text, alignments=heads)

    _, parsed = page(path, [prediction(2, "a b"), prediction(3, "a b c")], heads=True)
    assert [item["name"] for item in parsed.data["items"]] == ["1 · a b", "2 · a b c"]
    assert [p["name"] for p in parsed.data["items"][1]["panels"]] == ["prediction", "cross, head 0", "cross, head 1"]
    _, parsed = page(path, np.ones((2, 2, 1, 1)))
    assert [p["name"] for p in parsed.data["items"][0]["panels"]][-1] == "layer 1, head 1"


def test_weight_on_the_end_symbol_that_is_left_out_is_told(path):
    _, parsed = page(path, [[0.5, 0.5], [0.0, 1.0]], ["a"], ["x"], end_symbol=False)
    assert parsed.data["items"][0]["note"] == "</s> left out: 50.0% of the weight lay on it"


def test_what_is_no_number_is_null(path):
    _, parsed = page(path, [[np.nan, -np.inf, 1.0]])
    assert parsed.data["items"][0]["panels"][0]["weights"] == [None, None, 10000]


def test_the_page_is_small_and_serves_light_dark_keyboard_and_screen_readers(path):
    text, parsed = page(path, np.random.default_rng(0).dirichlet(np.ones(20), 20))
    assert path.stat().st_size < 40_000
    assert "prefers-color-scheme: dark" in text
    assert "onkeydown" in text
    elements = dict(parsed.elements)
    assert elements["canvas"]["tabindex"] == "0"
    assert elements["canvas"]["aria-label"]
    assert elements["output"]["aria-live"] == "polite"
    assert elements["html"]["lang"] == "en"


def test_characters_that_are_no_text_can_be_written(path):
    _, parsed = page(path, np.eye(2), ["\ud800", "\u2028"], ["\x00", "例"])
    assert parsed.data["items"][0]["source"] == ["‹U+D800›", "‹U+2028›"]
    assert parsed.data["items"][0]["target"] == ["‹U+0000›", "例"]
    _, parsed = page(path, np.eye(2), title="\ud800\x1b title")
    assert parsed.data["title"] == "\\ud800\\x1b title"


def test_the_scale_of_colours_can_end_at_the_largest_weight_and_says_so(path):
    text, parsed = page(path, [[0.02, 0.04]], highest="largest")
    assert (parsed.data["highest"], parsed.data["largest"]) == (pytest.approx(0.04), True)
    assert ", the largest weight" in text
    _, parsed = page(path, [[0.02, 0.04]])
    assert (parsed.data["highest"], parsed.data["largest"]) == (1.0, False)


def test_thumbnails_of_many_heads_scroll_below_the_picture(path):
    text, parsed = page(path, np.ones((12, 16, 2, 3)) / 3)
    ids = [attributes["id"] for _, attributes in parsed.elements if attributes.get("id")]
    assert ids.index("map") < ids.index("scale") < ids.index("panels")
    assert max(ids.index("layer"), ids.index("head")) < ids.index("map"), "heads can be chosen above the picture too"
    assert len(parsed.data["items"][0]["panels"]) == 192
    style = re.search(r"#panels \{[^}]*\}", text)[0]
    assert "max-height" in style
    assert "overflow-y: auto" in style


def test_a_rectangular_permutation_is_row_after_row_in_the_page(path):
    _, parsed = page(path, np.eye(5)[[2, 0, 4]], list("abcde"), list("xyz"))
    (item,) = parsed.data["items"]
    dark = {divmod(i, len(item["source"])) for i, weight in enumerate(item["panels"][0]["weights"]) if weight}
    assert {(item["target"][t], item["source"][s]) for t, s in dark} == {("x", "c"), ("y", "a"), ("z", "e")}


def test_joined_characters_are_whole_in_the_page(path):
    family = "\U0001f468\u200d\U0001f467"
    _, parsed = page(path, np.eye(2), [family, "\u200c"], ["می\u200cخواهم", "b"])
    assert parsed.data["items"][0]["source"] == [family, "‹ZWNJ›"]
    assert parsed.data["items"][0]["target"] == ["می\u200cخواهم", "b"]


NODE = shutil.which("node")
LINE = 13
"""Pixels between the baselines of two labels."""


def drawn(path, alignment, tokens, *, wide, steps=0):
    """The labels that the page's script draws on so wide a screen (pixels): at first, and for every cell pointed at."""
    plot_alignment(alignment, path, tokens, tokens)
    command = [NODE, Path(__file__).with_name("page.mjs"), path, str(wide), str(steps)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(NODE is None, reason="there is no node to run the page's script")
@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("wide", [320, 900])
def test_the_label_of_the_cell_that_is_pointed_at_lies_over_no_other(tmp_path, wide, length):
    tokens = [f"{n:0{length}}" for n in range(100)]
    for labels in drawn(tmp_path / "a.html", np.eye(100), tokens, wide=wide, steps=60)[1:]:
        assert sum(one["here"] for one in labels) == 2
        for one, other in combinations([one for one in labels if one["align"] != "right"], 2):
            least = LINE * 2**0.5 - 1e-6 if one["turned"] else (one["width"] + other["width"]) / 2
            assert abs(one["x"] - other["x"]) >= least, (one, other)
        for one, other in combinations([one for one in labels if one["align"] == "right"], 2):
            assert abs(one["y"] - other["y"]) >= LINE - 1e-6, (one, other)


def chosen(path, choices):
    """The weights at the first cell that the page tells when layers and heads are chosen, -1 being their mean."""
    command = [NODE, Path(__file__).with_name("page.mjs"), path, "900", "0", json.dumps(choices)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(NODE is None, reason="there is no node to run the page's script")
def test_layers_heads_and_their_means_are_chosen(tmp_path):
    weights = np.arange(6).reshape(2, 3, 1, 1) / 10  # layer 0: 0, 0.1, 0.2; layer 1: 0.3, 0.4, 0.5
    plot_alignment(weights, tmp_path / "a.html", layers=["encoder.0", "encoder.1"])
    told = chosen(tmp_path / "a.html", [[None, None], [0, 0], [0, 2], [1, 1], [1, -1], [-1, 0], [-1, -1]])
    assert [one["weight"] for one in told] == [
        "0.2500", "0.0000", "0.2000", "0.4000", "0.4000", "0.1500", "0.2500",
    ]  # fmt: skip
    assert told[0]["layers"] == ["encoder.0", "encoder.1", "mean of the layers"]
    assert told[0]["heads"] == ["mean of the heads", 0, 1, 2]
    # a row for each layer and for their mean, with a name; a column for each head and for their mean, with a number
    assert told[0]["cells"] == 3 * 5 + 5


@pytest.mark.skipif(NODE is None, reason="there is no node to run the page's script")
def test_the_mean_of_layers_is_without_the_main_alignment_which_has_no_heads(tmp_path):
    heads = {f"cross.{layer}": layer / 10 + np.array([0, 0.04]).reshape(2, 1, 1) for layer in range(3)}
    prediction = SimpleNamespace(
        alignment=np.full((1, 1), 0.9), source_tokens=["a"], tokens=["b"], text="b", alignments=heads
    )
    plot_alignment(prediction, tmp_path / "a.html", heads=True)
    told = chosen(tmp_path / "a.html", [[None, None], [0, 1], [1, -1], [2, 1], [-1, -1]])
    assert [one["weight"] for one in told] == ["0.9000", "0.9000", "0.0200", "0.1400", "0.1200"]
    assert told[0]["layers"] == ["prediction", "cross.0", "cross.1", "cross.2", "mean of the layers"]


@pytest.mark.skipif(NODE is None, reason="there is no node to run the page's script")
def test_a_mean_with_something_that_is_no_number_is_none(tmp_path):
    plot_alignment(np.array([0.5, np.nan]).reshape(2, 1, 1), tmp_path / "a.html")
    told = chosen(tmp_path / "a.html", [[0, -1], [0, 0]])
    assert [one["weight"] for one in told] == ["not a number", "0.5000"]


@pytest.mark.skipif(NODE is None, reason="there is no node to run the page's script")
def test_long_tokens_are_not_clipped_on_a_narrow_screen(tmp_path):
    tokens = ["Donaudampfschiffahrtsgesellschaft" * 3, "ab"]
    (labels, *_) = drawn(tmp_path / "a.html", np.eye(2), tokens, wide=320)
    for one in labels:
        if one["align"] == "right":
            assert one["x"] - one["width"] >= 0, one
        else:
            assert one["width"] <= 120, one
    style = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "overflow-wrap: anywhere" in style.split(".tokens span {")[1].split("}")[0]
