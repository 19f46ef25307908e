"""Classified documents as files: words and weights in JSON for every language, in NPZ for numpy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.viz.files import ARRAYS, suffix_of
from regard.viz.weighted import WeightedDocument

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
