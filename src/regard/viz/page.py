"""An alignment as one HTML page that contains its data, style and script and sends no requests."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import printable
from regard.viz.aligned import PREDICTION, Aligned, Weights, panel_name
from regard.viz.colours import hexadecimal, ramp
from regard.viz.labels import END_SYMBOL, numbered

UNIT = 10_000
"""Weights are stored as integers, in units of 1/UNIT."""
BYTE_UNIT, NOT_A_NUMBER = 254, 255
"""Weights as bytes are in units of 1/BYTE_UNIT of the strongest colour; NOT_A_NUMBER stands for those not finite."""


def page(items: Sequence[Aligned], *, title: str | None = None, highest: float = 1.0, largest: bool = False) -> str:
    """The text of the page.

    Args:
        highest: the weight of the strongest colour.
        largest: whether `highest` is the largest weight, which the scale then notes.
    """
    heading = printable(title or "Alignment")
    data = {
        "title": heading,
        "unit": UNIT,
        "highest": highest,
        "largest": largest,
        "noun": "prediction" if all(item.layers is None for item in items) else "attention",
        "colours": {"light": hexadecimal(ramp(17)), "dark": hexadecimal(ramp(17, dark=True))},
        "items": [_item(index, item) for index, item in enumerate(items)],
    }
    return filled("page.html", heading, data=embedded(data))


def _item(index: int, item: Aligned) -> dict[str, Any]:
    steps, positions = item.alignment.shape[-2:]
    notes = [] if item.left_out is None else [f"{END_SYMBOL} left out: {item.left_out:.1%} of the weight lay on it"]
    if item.alignments:
        notes.append(f"{PREDICTION}: the alignment that predictions report")
    if item.prompt is not None:
        notes.append("dashed: the end of the prompt")
    return {
        "name": f"{index + 1}" + (f" · {printable(item.text)}" if item.text else ""),
        "source": numbered(item.source_tokens, positions),
        "target": numbered(item.tokens, steps),
        "sides": item.sides,
        "prompt": item.prompt,
        "note": " · ".join(notes),
        "panels": [
            {"name": panel_name(layer, head), "layer": layer, "head": head, "weights": _whole(weights)}
            for layer, heads in item.by_layer()
            for head, weights in heads
        ],
    }


def _whole(weights: Weights) -> list[int | None]:
    """Weights in units, row by row; None if not finite."""
    flat = weights.astype(np.float64).ravel()
    finite = np.isfinite(flat)
    whole: list[int | None] = np.where(finite, flat * UNIT, 0).round().astype(np.int64).tolist()
    for index in np.flatnonzero(~finite):
        whole[index] = None
    return whole


def filled(template: str, title: str, **parts: str) -> str:
    """A template of this package, filled with the common style, a title and further parts."""
    files = resources.files("regard.viz")
    parts |= {"style": files.joinpath("page.css").read_text(encoding="utf-8"), "title": html.escape(printable(title))}
    text = files.joinpath(template).read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


def as_bytes(values: NDArray[np.float64]) -> str:
    """Values from 0 to 1, row by row, a byte each, in base64."""
    finite = np.isfinite(values)
    units = np.where(finite, np.where(finite, values, 0).clip(0, 1) * BYTE_UNIT, NOT_A_NUMBER)
    return b64encode(units.round().astype(np.uint8).tobytes()).decode("ascii")


def embedded(data: Any) -> str:
    """JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
