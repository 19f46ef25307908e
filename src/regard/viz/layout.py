"""The places of panels on a page, in inches from the top left: a grid whose rows and columns fit their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.viz.aligned import Aligned, Weights, panel_name
from regard.viz.labels import columns, numbered, shortened, stride, visible_words

POINTS = 8.0
"""The size of labels."""
LINE = 0.13
"""The least distance between labels, in inches."""
LARGEST_CELL = 0.42
SINGLE, PAGE = 7.5, 11.0
"""The largest width of a single panel's matrix, and of all matrices in a row of a page."""
MAX_NAME = 40
"""The number of characters of a panel's name."""
SLANT = math.sin(math.radians(45))


@dataclass(frozen=True, slots=True)
class Axis:
    """One side of a panel.

    Args:
        length: of the matrix along this side.
        ticks: the labels that are shown, by position; none if another panel of the row or column shows them.
        stride: the number of positions from one label to the next.
        slanted: whether labels are slanted, since they are too long.
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
    left: float = 0.0
    top: float = 0.0


def width_of(label: str) -> float:
    """An estimate of the width of a label in inches."""
    return columns(label) * 0.62 * POINTS / 72


def arrange(items: Sequence[Aligned]) -> tuple[list[Panel], float, float]:
    """The panels in their places, and their total width and height."""
    contents = _rows(items)
    across = max(map(len, contents))
    limit = SINGLE if len(contents) == across == 1 else min(SINGLE / 1.5, max(1.0, PAGE / across))
    labelled = len(items) > 1
    rows: list[list[Panel]] = []
    shown = 0  # as many columns have labels above them; a longer row has its own
    for contents_of_row in contents:
        row = []
        for column, (number, item, name, weights) in enumerate(contents_of_row):
            if labelled:
                name = _with_item(number, item, name)
            is_first = len(contents_of_row) > shown
            row.append(_panel(item, name, weights, limit, top=labelled or is_first, left=labelled or column == 0))
        shown = max(shown, len(row))
        rows.append(row)
    lefts, width = _along([[row[i] for row in rows if i < len(row)] for i in range(across)])
    placed: list[Panel] = []
    top = 0.0
    for row in rows:
        top += max(_above(panel.across) for panel in row) + (0.1 if placed else 0)
        placed += [Panel(p.name, p.weights, p.across, p.down, left, top) for p, left in zip(row, lefts, strict=False)]
        top += max(panel.down.length for panel in row) + (0.3 if any(panel.name for panel in row) else 0.0)
    return placed, width, top


Content = tuple[int, Aligned, str, Weights]


def _rows(items: Sequence[Aligned]) -> list[list[Content]]:
    """Number and alignment, name and weights of each panel: a row for each layer of heads, else as `_tracks` says."""
    if len(items) == 1:
        layers = items[0].by_layer()
        if len(layers) > 1 and any(len(heads) > 1 for _, heads in layers):
            return [
                [(0, items[0], panel_name(layer, head), weights) for head, weights in heads] for layer, heads in layers
            ]
    contents = [(i, item, *panel) for i, item in enumerate(items) for panel in item.panels()]
    across = _tracks(items)
    return [contents[i : i + across] for i in range(0, len(contents), across)]


def _tracks(items: Sequence[Aligned]) -> int:
    """The number of panels in a row: all panels of a prediction, or as many as make a square."""
    counts = {len(item.panels()) for item in items}
    if len(items) > 1 and len(counts) == 1 and (only := counts.pop()) > 1:
        return only
    return max(1, math.ceil(math.sqrt(sum(len(item.panels()) for item in items))))


def _with_item(number: int, item: Aligned, name: str) -> str:
    """The name of a panel with the number and text of its prediction, which is cut first. Named layers need neither."""
    if item.layers is not None and name:
        return shortened(visible_words(name), MAX_NAME, end=True)
    room = MAX_NAME - len(name) - 3 * bool(name)
    words = shortened(visible_words(" · ".join(part for part in (str(number + 1), item.text) if part)), max(room, 8))
    return shortened(visible_words(" · ".join(part for part in (words, name) if part)), MAX_NAME)


def _panel(item: Aligned, name: str, weights: Weights, limit: float, *, top: bool, left: bool) -> Panel:
    steps, positions = weights.shape
    cell = min(LARGEST_CELL, limit / max(steps, positions, 1))
    across, down = _side(positions, cell, limit), _side(steps, cell, limit)
    sources = _shown(item.source_tokens, positions) if top else ()
    targets = _shown(item.tokens, steps) if left else ()
    cell = across / max(positions, 1)
    upright = stride(cell, max(map(width_of, sources), default=0.0) / 0.9)
    slanted = stride(cell, LINE / SLANT)
    return Panel(
        name,
        weights,
        _axis(across, sources, min(upright, slanted), slanted=upright > slanted),
        _axis(down, targets, stride(down / max(steps, 1), LINE)),
    )


def _axis(length: float, labels: tuple[str, ...], every: int, *, slanted: bool = False) -> Axis:
    return Axis(length, {i: labels[i] for i in range(0, len(labels), every)}, every, slanted)


def _side(size: int, cell: float, limit: float) -> float:
    """The length of a side; the shorter side of a long matrix is at least a third of the longer one."""
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
