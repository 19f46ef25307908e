"""Draws classified documents: words coloured by their weights, a bar of its weight beside each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.errors import RegardError
from regard.viz.document_page import document_page
from regard.viz.files import suffix_of
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
    if highest != "largest" and not (isinstance(highest, int | float) and 0 < highest < float("inf")):
        raise RegardError(f"highest must be a weight above 0, or 'largest'; got {highest!r}.")
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
