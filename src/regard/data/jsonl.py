"""Pairs from a file with a JSON value a line."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from regard.data.lines import Lines
from regard.data.pairs import Pair, Pairs, shorten
from regard.errors import DataError


class JsonlPairs(Pairs):
    """A JSON value a line: an object with named fields, or a list with counted ones; blank lines are skipped."""

    def __init__(self, path: Path, *, source_field: str | int, target_field: str | int) -> None:
        self.lines = Lines(path, skip_blank=True)
        self.source_field = source_field
        self.target_field = target_field

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def num_blank(self) -> int:
        return self.lines.num_skipped

    def read(self, index: int) -> Pair:
        line = self.lines.number(index)
        place = f"{self.lines.path}:{line}"
        text = self.lines[index]
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            where = f" at column {error.colno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else ""
            raise DataError(f"{place}: not JSON{where}, in {shorten(text)}.") from None
        source = _json_field(value, self.source_field, "source_field", place)
        target = _json_field(value, self.target_field, "target_field", place)
        return Pair(source, target, self.lines.path, line)


def _json_field(value: Any, field: Any, key: str, place: str) -> str:
    if isinstance(field, str) != isinstance(value, dict) or not isinstance(value, (dict, list)):
        kind = type(value).__name__ if not isinstance(value, dict) else f"an object with {', '.join(map(repr, value))}"
        raise DataError(
            f"{place}: data.{key} is {field!r}, but the line holds {kind}.\n"
            "  Name a field of JSON objects, or count the entries of JSON lists from 0."
        )
    try:
        found: Any = value[field]
    except KeyError:
        near = difflib.get_close_matches(str(field), value, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, value)) or 'none'}."
        raise DataError(f"{place}: no field {field!r} (data.{key}); {hint}") from None
    except IndexError:
        raise DataError(f"{place}: no entry {field} (data.{key}); the list has {len(value)}.") from None
    if not isinstance(found, str):
        raise DataError(f"{place}: field {field!r} (data.{key}) must be text; found {shorten(json.dumps(found))}.")
    if not found.isascii() and any("\ud800" <= character <= "\udfff" for character in found):
        raise DataError(f"{place}: field {field!r} (data.{key}) has half a surrogate pair: {found!a}.")
    return found
