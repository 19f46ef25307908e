"""The table of a search for settings: as text, as rows and as a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from regard.config.ranges import label
from regard.errors import one_line
from regard.runs.sweep.trial import Trial

WIDTH, SHOWN, CELL = 80, 20, 18
"""The most columns of a text, rows, and characters of a value."""
GAP = "  "
AS_IT_IS = "as configured"


def records(trials: Sequence[Trial], metric: str) -> list[dict[str, Any]]:
    """The rows in the order of the trials; only their `seconds` differ between two equal searches."""
    return [
        {
            "trial": each.number,
            "state": each.state,
            metric: each.value,
            "steps": each.steps,
            "validations": each.validations,
            **each.settings,
            "seconds": round(each.seconds, 1),
            "reason": each.reason,
        }
        for each in trials
    ]


def comma_separated(trials: Sequence[Trial], metric: str) -> str:
    """The rows as CSV; sections and lists are YAML."""
    rows, stream = records(trials, metric), io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(rows[0] if rows else [])
    for row, each in zip(rows, trials, strict=True):
        writer.writerow(
            [_exact(value) if name in each.settings else "" if value is None else value for name, value in row.items()]
        )
    return stream.getvalue()


def ranked(trials: Sequence[Trial], *, larger_is_better: bool) -> list[Trial]:
    """Finished trials, the best first, then stopped and then failed ones."""
    order, sign = ("finished", "stopped", "failed", "running"), -1 if larger_is_better else 1
    return sorted(trials, key=lambda each: (order.index(each.state), sign * (each.value or 0.0), each.number))


def text(trials: Sequence[Trial], metric: str, *, larger_is_better: bool, importances: Mapping[str, float]) -> str:
    """The best trials and the first one, in lines of `WIDTH` characters.

    The keys come in the order of their importances; those that do not fit are left to the file.
    """
    rows = ranked(trials, larger_is_better=larger_is_better)
    kept = [each for place, each in enumerate(rows) if place < SHOWN or each.number == 0]
    keys = list(dict.fromkeys([*importances, *(key for each in rows for key in each.settings)]))
    columns = [["trial", *(str(each.number) for each in kept)], [metric, *(_figure(each.value) for each in kept)]]
    notes = ["", *map(_note, kept)]
    room = WIDTH - sum(map(_width, columns)) - len(GAP) - len(GAP) - _width(notes)
    names, left = short_names(keys), 0
    for key in keys:
        column = [names[key], *(_cell(each.settings.get(key)) for each in kept)]
        if _width(column) + len(GAP) <= room and not left:
            columns.append(column)
            room -= _width(column) + len(GAP)
        else:
            left += 1
    lines = []
    for row in range(len(kept) + 1):
        cells = [column[row].rjust(_width(column)) for column in columns]
        lines.append(GAP.join([*cells, notes[row]]).rstrip())
    hidden = len(rows) - len(kept)
    more = [f"{hidden} more trials"] * bool(hidden) + [f"{left} more keys"] * bool(left)
    if more:
        lines.append(f"({' and '.join(more)} in the file)")
    return "\n".join(lines)


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """The shortest ends of dotted keys that are different.

    >>> short_names(["model.encoder.size", "model.decoder.size", "seed"])
    {'model.encoder.size': 'encoder.size', 'model.decoder.size': 'decoder.size', 'seed': 'seed'}
    """
    ends = {key: [key.split(".", n)[-1] for n in range(key.count("."), -1, -1)] for key in keys}
    return {
        key: next(end for end in ends[key] if sum(end in other for other in ends.values()) == 1 or end == key)
        for key in keys
    }


def described(settings: Mapping[str, Any]) -> str:
    """Settings in a line."""
    names = short_names(list(settings))
    return ", ".join(f"{names[key]} {_cell(value)}" for key, value in settings.items())


def _note(trial: Trial) -> str:
    if trial.state == "stopped":
        return f"stopped at {trial.validations}"
    notes = [AS_IT_IS] * (trial.number == 0) + [trial.state] * (trial.state != "finished")
    return ", ".join(notes)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _cell(value: Any) -> str:
    shown = one_line(label(value))
    return shown if len(shown) <= CELL else shown[: CELL - 1] + "…"


def _exact(value: Any) -> Any:
    """A setting in full: a number or a text as it is, others as YAML."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else label(value)


def _width(column: Sequence[str]) -> int:
    return max(map(len, column))
