"""The difference of the alignments of two outputs, whose inputs may differ, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, ShapeError
from regard.metrics.edit_distance import edit_path

Matched = list[tuple[int | None, int | None]]


@dataclass(frozen=True, slots=True, eq=False)
class AlignmentDifference:
    """Two alignments beside each other, with their symbols matched along a shortest edit path.

    Args:
        columns, rows: the places of each source symbol and each output symbol in the first and in the second one; None
            where one of them lacks it.
        source_tokens, tokens: their texts, of the second one where they differ.
        weights: (R, C), the weights of the second minus those of the first, which are 0 where a symbol is missing.
        moved: (R,), of each row that both have, the share of its weight that is at other symbols: half the sum of the
            absolute differences; NaN for rows that only one of them has.
    """

    columns: Matched
    rows: Matched
    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    weights: NDArray[np.float64]
    moved: NDArray[np.float64]

    def record(self, decimals: int = 6) -> dict[str, Any]:
        """The difference as a JSON object."""
        return {
            "columns": [list(pair) for pair in self.columns],
            "rows": [list(pair) for pair in self.rows],
            "source_tokens": list(self.source_tokens),
            "tokens": list(self.tokens),
            "weights": self.weights.round(decimals).tolist(),
            "moved": [None if np.isnan(share) else round(float(share), decimals) for share in self.moved],
        }


def alignment_difference(first: Any, second: Any) -> AlignmentDifference:
    """What changes from the alignment of one output to that of another, for example after the input was edited.

    Args:
        first, second: predictions, or other objects with `source_tokens`, `tokens` and `alignment` (T, S).

    Raises:
        RegardError: for an object without an alignment.
        ShapeError: for an alignment that does not fit its tokens.

    >>> from types import SimpleNamespace as Item
    >>> first = Item(source_tokens=["a", "b"], tokens=["x"], alignment=[[0.75, 0.25]])
    >>> second = Item(source_tokens=["a", "c", "b"], tokens=["x"], alignment=[[0.5, 0.25, 0.25]])
    >>> difference = alignment_difference(first, second)
    >>> difference.source_tokens, difference.weights.tolist(), difference.moved.tolist()
    (('a', 'c', 'b'), [[-0.25, 0.25, 0.0]], [0.25])
    """
    items = [_read(first, "first"), _read(second, "second")]
    (sources, tokens, _), (other_sources, other_tokens, _) = items
    columns, rows = edit_path(other_sources, sources), edit_path(other_tokens, tokens)
    before, after = (
        _placed(weights, [pair[side] for pair in rows], [pair[side] for pair in columns])
        for side, (_, _, weights) in enumerate(items)
    )
    moved = 0.5 * np.abs(after - before).sum(1)
    moved[[None in pair for pair in rows]] = np.nan
    return AlignmentDifference(
        columns,
        rows,
        _texts(columns, sources, other_sources),
        _texts(rows, tokens, other_tokens),
        after - before,
        moved,
    )


def _read(item: Any, name: str) -> tuple[list[str], list[str], NDArray[np.float64]]:
    if getattr(item, "alignment", None) is None:
        raise RegardError(f"The {name} output has no alignment to compare; predict with alignments.")
    weights = np.asarray(item.alignment, np.float64)
    sources, tokens = list(item.source_tokens), list(item.tokens)
    if weights.shape != (len(tokens), len(sources)):
        raise ShapeError(
            f"The alignment of the {name} output must be (T={len(tokens)}, S={len(sources)}), a row for each token and "
            f"a column for each source token; got {weights.shape}."
        )
    return sources, tokens, weights


def _placed(
    weights: NDArray[np.float64], rows: Sequence[int | None], columns: Sequence[int | None]
) -> NDArray[np.float64]:
    """The weights at the places of matched symbols, 0 at None."""
    padded = np.pad(weights, ((0, 1), (0, 1)))
    index = [np.array([-1 if place is None else place for place in each], np.intp) for each in (rows, columns)]
    placed: NDArray[np.float64] = padded[np.ix_(*index)]
    return placed


def _texts(pairs: Matched, first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(first[i] if j is None and i is not None else second[j or 0] for i, j in pairs)
