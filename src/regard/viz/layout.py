"""The layout of panels on a page, in inches from the top left: a grid whose rows and columns fit their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.viz.aligned import Aligned, Weights, panel_name
from regard.viz.labels import columns, numbered, shortened, stride, visible_words

POINTS = 8.0
"""The size of labels."""
LINE = 0.13
"""The least distance between labels, in inches."""
LARGEST_CELL = 0.42
SINGLE, PAGE = 7.5, 11.0
"""The largest width of a single panel's matrix, and of all matrices in a row of a page."""
ACROSS = 8
"""The most panels in a row."""
NAME = 1.2
"""The least width, in inches, of the name of a panel, which is cut to the width of its panel."""
HEADING = 0.2
"""The height of the heading of a row, in inches."""
SLANT = math.sin(math.radians(45))


@dataclass(frozen=True, slots=True)
class Axis:
    """One side of a panel.

    Args:
        length: of the matrix along this side.
        ticks: the labels by position; none if another panel of the row or column shows them.
        stride: the number of positions from one label to the next.
        slanted: whether labels are slanted, because they are long.
    """

    length: float
    ticks: dict[int, str]
    stride: int
    slanted: bool

    @property
    def widest(self) -> float:
        """The width of the widest label, in inches."""
        return max(map(width_of, self.ticks.values()), default=0.0)


@dataclass(frozen=True, slots=True)
class Panel:
    """A matrix with its name and its place; `left` and `top` are those of the matrix without its labels."""

    name: str
    weights: Weights
    across: Axis
    down: Axis
    prompt: tuple[int, int] | None = None
    left: float = 0.0
    top: float = 0.0


def width_of(label: str) -> float:
    """An estimate of the width of a label in inches."""
    return columns(label) * 0.62 * POINTS / 72


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a row, and its place."""

    text: str
    left: float
    top: float


@dataclass(frozen=True, slots=True)
class Page:
    """Placed panels and headings, and the total size."""

    panels: list[Panel]
    headings: list[Heading]
    width: float
    height: float


def arrange(items: Sequence[Aligned]) -> Page:
    """The panels of alignments in a grid."""
    contents = _rows(items)
    across = max(len(row) for _, row in contents)
    limit = SINGLE if len(contents) == across == 1 else min(SINGLE / 1.5, max(1.0, PAGE / across))
    labelled = len(items) > 1
    rows: list[list[Panel]] = []
    num_labelled = 0  # the columns that have labels above them; a longer row gets its own labels
    for heading, row_contents in contents:
        is_first = len(row_contents) > num_labelled or (labelled and bool(heading))
        row = [
            _panel(name, item, weights, limit, top=labelled or is_first, left=labelled or column == 0)
            for column, (item, name, weights) in enumerate(row_contents)
        ]
        num_labelled = max(num_labelled, len(row))
        rows.append(row)
    lefts, width = _along([[row[i] for row in rows if i < len(row)] for i in range(across)])
    placed: list[Panel] = []
    headings: list[Heading] = []
    top = 0.0
    for (heading, _), row in zip(contents, rows, strict=True):
        if heading:
            top += 0.1 if placed else 0.0
            headings.append(Heading(heading, lefts[0], top))
            top += HEADING
        top += max(_above(panel.across) for panel in row) + (0.1 if placed else 0)
        placed += [replace(panel, left=left, top=top) for panel, left in zip(row, lefts, strict=False)]
        top += max(panel.down.length for panel in row) + (0.3 if any(panel.name for panel in row) else 0.0)
    return Page(placed, headings, width, top)


Content = tuple[Aligned, str, Weights]


def _rows(items: Sequence[Aligned]) -> list[tuple[str, list[Content]]]:
    """Heading and panels of each row: a row for each layer of heads or each of several alignments, or a square grid."""
    layers = [(number, item, item.by_layer()) for number, item in enumerate(items, start=1)]
    if any(len(heads) > 1 for _, _, named in layers if len(items) + len(named) > 2 for _, heads in named):
        return [
            row
            for number, item, named in layers
            for index, (layer, heads) in enumerate(named)
            for row in _wrapped(
                _heading(number if len(items) > 1 else 0, item, layer, is_first=index == 0),
                [(item, panel_name("", head), weights) for head, weights in heads],
            )
        ]
    if len(items) > 1 and any(len(named) > 1 for _, _, named in layers):  # several layers without heads
        return [
            row
            for number, item, _ in layers
            for row in _wrapped(_numbered(number, item), [(item, *panel) for panel in item.panels()])
        ]
    contents = [
        (item, _numbered(number, item) if len(items) > 1 else name, weights)
        for number, item in enumerate(items, start=1)
        for name, weights in item.panels()
    ]
    across = max(1, math.ceil(math.sqrt(len(contents))))
    return [("", contents[i : i + across]) for i in range(0, len(contents), across)]


def _wrapped(heading: str, contents: list[Content]) -> list[tuple[str, list[Content]]]:
    """Rows of nearly equal length, the first with the heading."""
    length = math.ceil(len(contents) / math.ceil(len(contents) / ACROSS))
    return [(heading if i == 0 else "", contents[i : i + length]) for i in range(0, len(contents), length)]


def _numbered(number: int, item: Aligned) -> str:
    """The number and the text of an alignment; only the text if its layers have names."""
    parts = (item.text,) if item.layers is not None else (str(number), item.text)
    return " · ".join(part for part in parts if part)


def _heading(number: int, item: Aligned, layer: str, *, is_first: bool) -> str:
    """The heading above the panels of a layer, which for the first layer also names the alignment."""
    numbered = _numbered(number, item) if number and is_first and item.layers is None else ""
    return " · ".join(part for part in (numbered, layer) if part)


def _panel(name: str, item: Aligned, weights: Weights, limit: float, *, top: bool, left: bool) -> Panel:
    steps, positions = weights.shape
    cell = min(LARGEST_CELL, limit / max(steps, positions, 1))
    across, down = _side(positions, cell, limit), _side(steps, cell, limit)
    sources = _shown(item.source_tokens, positions) if top else ()
    targets = _shown(item.tokens, steps) if left else ()
    cell = across / max(positions, 1)
    upright = stride(cell, max(map(width_of, sources), default=0.0) / 0.9)
    slanted = stride(cell, LINE / SLANT)
    return Panel(
        shortened(visible_words(name), int(max(across, NAME) / width_of("x"))),
        weights,
        _axis(across, sources, min(upright, slanted), slanted=upright > slanted),
        _axis(down, targets, stride(down / max(steps, 1), LINE)),
        item.prompt,
    )


def _axis(length: float, labels: tuple[str, ...], every: int, *, slanted: bool = False) -> Axis:
    return Axis(length, {i: labels[i] for i in range(0, len(labels), every)}, every, slanted)


def _side(size: int, cell: float, limit: float) -> float:
    """The length of a side: at least a third of the limit, so that long matrices are not too narrow."""
    return max(size * cell, min(size * LARGEST_CELL, limit / 3), 0.3)


def _shown(tokens: tuple[str, ...] | None, size: int) -> tuple[str, ...]:
    return tuple(shortened(label) for label in numbered(tokens, size))


def _above(axis: Axis) -> float:
    if not axis.ticks:
        return 0.1
    return 0.15 + (SLANT * axis.widest + 0.1 if axis.slanted else 0.1)


def _along(tracks: Sequence[Sequence[Panel]]) -> tuple[list[float], float]:
    """The left edge of the matrices in each column, and the total width."""
    lefts: list[float] = []
    right = 0.0
    for track in tracks:
        right += max(panel.down.widest + 0.1 if panel.down.ticks else 0.0 for panel in track) + (0.18 if lefts else 0)
        lefts.append(right)
        right += max(max(panel.across.length, width_of(panel.name) * 1.1) for panel in track)
    return lefts, right
