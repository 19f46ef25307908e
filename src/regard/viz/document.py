"""Classified documents: drawn in colours of their weights, and as files of words and weights."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.errors import RegardError, printable
from regard.viz.colours import HUES, WARM, are_light, hexadecimal, highlights
from regard.viz.files import ARRAYS, DRAWN, check_highest, suffix_of
from regard.viz.labels import visible
from regard.viz.page import filled
from regard.viz.weighted import Emphasis, WeightedDocument, largest_emphasis, scale_labels

STEPS = 32
"""Colours of words and of bars."""


def document_page(
    documents: Sequence[WeightedDocument], *, title: str | None, emphasis: Emphasis, highest: float
) -> str:
    """The text of the HTML page."""
    labels = scale_labels(documents, emphasis, highest)
    scales = [f'<span><i class="{name}"></i>{label}</span>' for name, label in zip(("cold", "warm"), labels)]
    sections = "\n".join(_section(item, emphasis, highest) for item in documents)
    colours = {"light": _colours(dark=False), "dark": _colours(dark=True)}
    return filled("document_page.html", title or "Document", **colours, scales="".join(scales), sections=sections)


def _colours(*, dark: bool) -> str:
    """CSS classes for the colours of words (w), of bars (s), and of their scales."""
    rules = []
    for letter, hues, scale in (("w", HUES, "cold"), ("s", WARM, "warm")):
        colours = highlights(STEPS + 1, dark=dark, hues=hues)
        light = are_light(colours)
        for i, (colour, is_light) in enumerate(zip(hexadecimal(colours), light, strict=True)):
            rules.append(f".{letter}{i}{{background:{colour};color:{'#111' if is_light else '#fff'}}}")
        rules.append(f".{scale}{{background:linear-gradient(90deg,{','.join(hexadecimal(colours))})}}")
    return "\n".join(rules)


def _section(item: WeightedDocument, emphasis: Emphasis, highest: float) -> str:
    kind = ' class="flat"' if item.weights is None else ""
    return f"<section{kind}>\n{_heading(item)}{_body(item, emphasis, highest)}</section>"


def _heading(item: WeightedDocument) -> str:
    known = item.predicted is not None and item.label is not None
    verdict = "right" if item.predicted == item.label else "wrong"
    parts = []
    if item.predicted is not None:
        mark = f' class="{verdict}"' if known else ""
        score = "" if item.probability is None else f" {item.probability:.2f}"
        parts.append(f"predicted <b{mark}>{html.escape(printable(item.predicted))}</b>{score}")
    if item.label is not None:
        parts.append(f"true <b>{html.escape(printable(item.label))}</b>")
    sign = f' <span class="{verdict}">{"✓" if verdict == "right" else "✗"}</span>' if known else ""
    return f"<h2>{' · '.join(parts)}{sign}</h2>\n" if parts else ""


def _body(item: WeightedDocument, emphasis: Emphasis, highest: float) -> str:
    rows = []
    for s, (words, weights, strengths) in enumerate(
        zip(item.sentences, item.words, item.emphasis(emphasis), strict=True)
    ):
        share = None if item.weights is None else float(item.weights[s])
        beside = "" if share is None else f'<small>{share:.2f}</small><i class="{_step("s", share)}"></i>'
        of_sentence = "" if share is None else f", sentence {share:.4f}"
        spans = " ".join(
            f'<span class="{_step("w", strength / highest)}" title="weight {weight:.4f}{of_sentence}">'
            f"{html.escape(visible(word))}</span>"
            for word, weight, strength in zip(words, weights, strengths, strict=True)
        )
        rows.append(f'<div class="sentence">{beside}<p dir="auto">{spans}</p></div>\n')
    return "".join(rows)


def _step(letter: str, share: float) -> str:
    """The CSS class of a share from 0 to 1."""
    return f"{letter}{round(STEPS * min(1.0, max(0.0, share)))}" if np.isfinite(share) else "nan"


def plot_document(
    documents: WeightedDocument | Sequence[WeightedDocument],
    path: str | Path,
    *,
    title: str | None = None,
    emphasis: Emphasis = "root",
    highest: float | Literal["largest"] = "largest",
) -> Path:
    """Draws documents as running text, in which words, and bars beside sentences, are darker for larger weights.

    The weight of a sentence stands next to its bar as a number, the predicted and the true label above the document.
    PNG, SVG and PDF show all documents one below the other. HTML is one file without scripts that sends no requests; it
    shows the weights of the word under the pointer.

    Args:
        documents: one or several.
        path: ends in .png, .svg, .pdf or .html; missing folders are created.
        title: the text above everything.
        emphasis: how a word's colour follows from the weights (`WeightedDocument.emphasis`).
        highest: the emphasis of the darkest colour; "largest" is the largest of the file, and then the colours of two
            files cannot be compared. The bars of sentences are darkest at weight 1.

    Raises:
        RegardError: for an unknown suffix, no documents, or a document too long for a picture.

    Source: Yang et al. 2016 (aclanthology N16-1174), figures 5 and 6.

    >>> import tempfile
    >>> document = WeightedDocument([["so", "good"], ["yes"]], [[0.1, 0.9], [1, 0]], [0.8, 0.2], predicted="positive")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plot_document(document, folder + "/review.html").name
    'review.html'
    """
    target = Path(path)
    suffix = suffix_of(target, DRAWN)
    items = [documents] if isinstance(documents, WeightedDocument) else list(documents)
    if not items:
        raise RegardError("There are no documents to draw; give at least one.")
    check_highest(highest)
    scale = largest_emphasis(items, emphasis) if highest == "largest" else highest
    if suffix == ".html":
        text = document_page(items, title=title, emphasis=emphasis, highest=scale)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target
    from regard.viz.document_picture import draw_documents

    figure = draw_documents(items, title=title, emphasis=emphasis, highest=scale)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    return target


FORMAT = "regard.document.1"
TEXTS = ("predicted", "probability", "label")


def save_documents(documents: WeightedDocument | Sequence[WeightedDocument], path: str | Path) -> Path:
    """Writes words and weights, as `plot_document` would show them, to a .json or .npz file.

    JSON is `{"format": ..., "items": [{"sentences": [[...]], "word_weights": [[...]], "sentence_weights": [...],
    "predicted": ...}]}`, `sentence_weights` null for a flat network. NPZ has for each document, after its number, the
    words `0/words` and their weights `0/word_weights` end to end, the number of words of each sentence `0/lengths`, and
    `0/sentence_weights`; it is loaded without pickle.

    Args:
        documents: one or several.
        path: ends in .json or .npz; missing folders are created.

    Raises:
        RegardError: for another suffix.

    >>> import tempfile
    >>> document = WeightedDocument([["so", "good"], ["yes"]], [[0.25, 0.75], [1, 0]], [0.5, 0.5], predicted="positive")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored = json.loads(save_documents(document, folder + "/a.json").read_text())
    >>> stored["items"][0]["word_weights"]
    [[0.25, 0.75], [1.0]]
    """
    target = Path(path)
    suffix = suffix_of(target, ARRAYS)
    items = [documents] if isinstance(documents, WeightedDocument) else list(documents)
    target.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".json":
        document = {"format": FORMAT, "items": [_entry(item) for item in items]}
        target.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")
        return target
    arrays: dict[str, Any] = {"format": np.array(FORMAT)}
    for number, item in enumerate(items):
        empty = np.empty(0)
        values = {
            "words": np.array([word for sentence in item.sentences for word in sentence], dtype=np.str_),
            "word_weights": np.concatenate([empty, *item.words]),
            "lengths": np.array([len(sentence) for sentence in item.sentences], dtype=np.int64),
            "sentence_weights": item.weights,
            **{name: getattr(item, name) for name in TEXTS},
        }
        arrays |= {f"{number}/{name}": np.array(value) for name, value in values.items() if value is not None}
    np.savez_compressed(target, **arrays)
    return target


def _entry(item: WeightedDocument) -> dict[str, Any]:
    return {
        "sentences": [list(sentence) for sentence in item.sentences],
        "word_weights": [_finite(row) for row in item.words],
        "sentence_weights": None if item.weights is None else _finite(item.weights),
        **{name: getattr(item, name) for name in TEXTS},
    }


def _finite(values: Any) -> list[float | None]:
    """Numbers, with None for those that are not finite."""
    return [value if np.isfinite(value) else None for value in values.tolist()]
