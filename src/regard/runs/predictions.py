"""The predictions of a call, a list that shows itself in notebooks."""

from __future__ import annotations

from html import escape
from typing import TypeVar

PredictionT = TypeVar("PredictionT")
SHOWN = 5
"""The most predictions of a list that a notebook shows."""


class Predictions(list[PredictionT]):
    """A list of predictions, of which a notebook shows the first as they show themselves."""

    def _repr_html_(self) -> str:
        parts = []
        for prediction in self[:SHOWN]:
            show = getattr(prediction, "_repr_html_", None)
            parts.append(f"<pre>{escape(repr(prediction))}</pre>" if show is None else show())
        if len(self) > SHOWN:
            parts.append(f"<p>{len(self) - SHOWN:,} more</p>")
        return "\n".join(parts)
