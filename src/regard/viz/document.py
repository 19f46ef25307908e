"""Classified documents: drawn in colours of their weights, and as files of words and weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.errors import RegardError
from regard.viz.document_page import document_page
from regard.viz.files import ARRAYS, check_highest, suffix_of
from regard.viz.plot import PICTURES
from regard.viz.weighted import Emphasis, WeightedDocument, largest_emphasis


def plot_document(
    documents: WeightedDocument | Sequence[WeightedDocument],
    path: str | Path,
    *,
    title: str | None = None,
    emphasis: Emphasis = "root",
    highest: float | Literal["largest"] = "largest",
) -> Path:
    """Draws documents as running text: a word is darker the more it counts, and so is the bar beside each sentence.

    The sentence's weight stands beside its bar as a number, the predicted and the true label above the document.

    PNG, SVG and PDF show all documents one below the other. HTML is one file without scripts that sends no requests; it
    shows a word's weights where the pointer rests.

    Args:
        documents: one or several.
        path: ends in .png, .svg, .pdf or .html; missing folders are created.
        title: the text above everything.
        emphasis: how a word's colour follows from the weights (`WeightedDocument.emphasis`).
        highest: the emphasis of the darkest colour; "largest" is the largest of the file, and then the colours of two
            files cannot be compared. The bars of sentences are darkest at weight 1.

    Returns:
        The path.

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
    suffix = suffix_of(target, (*PICTURES, ".html"))
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

    Returns:
        The path.

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
    """Numbers, None in place of those that are not finite."""
    return [value if np.isfinite(value) else None for value in values.tolist()]
