"""Many heads as small multiples on one sheet: a row for each layer, a column for each head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.viz.aligned import Aligned, Weights
from regard.viz.labels import shortened, visible_words

MAX_PANELS = 24
"""More heads than this are shown as small multiples below the picture of their mean."""
WIDTH = 11.0
"""The largest width of a row of small multiples, in inches."""
LARGEST, SMALLEST, GAP = 0.9, 0.3, 0.06
"""The largest and the smallest side of a small multiple, and the gap between two, in inches."""
GRAIN = 0.02
"""Sides are multiples of this, so that they are whole numbers of dots; in inches."""
SIGN = 0.075
"""The width of a character of a label, in inches."""


@dataclass(frozen=True)
class Sheet:
    """Small multiples in rows.

    Args:
        rows: label and heads (T, S) of each row; a row has at most as many heads as fit the width of a page.
    """

    rows: Sequence[tuple[str, Sequence[Weights]]]

    @property
    def num_columns(self) -> int:
        """The number of heads of the longest row."""
        return max(len(heads) for _, heads in self.rows)

    @cached_property
    def cell(self) -> tuple[float, float]:
        """Width and height of a small multiple, in the shape of the largest alignment from 3:2 tall to 2:1 wide."""
        steps, positions = np.max([heads[0].shape for _, heads in self.rows], axis=0)
        width = min(LARGEST, WIDTH / self.num_columns - GAP)
        height = width * float(np.clip(steps / max(positions, 1), 0.5, 1.5))
        return math.floor(width / GRAIN) * GRAIN, math.floor(height / GRAIN) * GRAIN

    @property
    def margin(self) -> float:
        """The width of the labels of the rows."""
        return 0.1 + SIGN * max(len(label) for label, _ in self.rows)

    @property
    def size(self) -> tuple[float, float]:
        """Total width and height of the matrices."""
        width, height = self.cell
        return self.num_columns * (width + GAP) - GAP, len(self.rows) * (height + GAP) - GAP


def is_crowded(items: Sequence[Aligned]) -> bool:
    """Whether one of the alignments has too many heads for pictures of full size."""
    return any(len(item.panels()) > MAX_PANELS for item in items)


def without_heads(item: Aligned) -> Aligned:
    """The alignment of the large picture: that of the prediction, or the mean of the heads."""
    heads = item.alignment
    mean = heads if heads.ndim == 2 else heads.mean(axis=tuple(range(heads.ndim - 2)))
    return Aligned(mean, item.source_tokens, item.tokens, {}, item.text, item.left_out)


def sheet(items: Sequence[Aligned]) -> Sheet:
    """The heads of all alignments in rows, which are numbered if there are several alignments."""
    rows: list[tuple[str, Sequence[Weights]]] = []
    for number, item in enumerate(items, start=1):
        start = [str(number)] if len(items) > 1 else []
        layers = item.by_layer()
        for label, heads in layers[1:] if item.alignments else layers:  # that of the prediction is shown large
            words = visible_words(" · ".join([*([] if item.layers else start), *([label] if label else [])]))
            row = shortened(words, 32, end=item.layers is not None)
            rows.append((row, [weights for _, weights in heads]))
    return Sheet([part for label, row in rows for part in _wrapped(label, row)])


def _wrapped(label: str, heads: Sequence[Weights]) -> Iterator[tuple[str, Sequence[Weights]]]:
    """A row, divided into several if it is too long, whose labels then have the numbers of their heads."""
    most = int(WIDTH / (SMALLEST + GAP))
    count = math.ceil(len(heads) / most)
    for index in range(count):
        first, last = index * most, min((index + 1) * most, len(heads))
        numbers = f"{first}–{last - 1}" if count > 1 else ""
        yield f"{label} {numbers}".strip(), heads[first:last]
