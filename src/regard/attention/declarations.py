"""Whether a fast path may compute what parts do without calling them, by what they declare of themselves."""

from __future__ import annotations

from collections.abc import Container

from regard.attention.contract import Comparison, Parts
from regard.layers import eligibility


def ineligible(
    parts: Parts,
    comparison: Comparison | None,
    *,
    extents: Container[str] = ("all",),
    num_positions: int | None = None,
    reports: bool = False,
) -> str | None:
    """Why parts have to be called, or None.

    Args:
        parts: of a mechanism.
        comparison: what their score declares.
        extents: those of windows that the path knows.
        num_positions: of the memory, for windows that allow all past positions of a short one; any number if None.
        reports: whether the path reports the weights to recorders (`layers.recorders`).
    """
    extent = parts.window.extent if num_positions is None else parts.window.extent_of(num_positions)
    declared = {
        "score": comparison is not None,
        "window": extent in extents,
        "alignment": parts.alignment.softmax_factor is not None,
        "read": parts.read.is_sum,
    }
    for name, part in parts._asdict().items():
        if not declared[name]:
            return f"this path does not support {type(part).__name__}"
        if (reason := eligibility.ineligible(part, f"attention.{name}", reports=reports)) is not None:
            return reason
    assert comparison is not None
    for name, module in comparison.called:
        if (reason := eligibility.ineligible(module, f"attention.score.{name}")) is not None:
            return reason
    return None
