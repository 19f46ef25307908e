"""Pairs from a file with one JSON value per line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.config.spelling import suggestion
from regard.data.lines import Lines
from regard.data.pairs import Pair, Pairs, shorten
from regard.data.table_rows import TAB
from regard.errors import DataError


class JsonlPairs(Pairs):
    """One JSON value per line, an object with named fields or a list with numbered entries; blank lines are skipped.

    Args:
        source_fields: the fields of the source; several texts are joined by tabs.
    """

    def __init__(self, path: Path, *, source_fields: Sequence[str | int], target_field: str | int) -> None:
        self.lines = Lines(path, skip_blank=True)
        self.source_fields = source_fields
        self.target_field = target_field

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def num_blank(self) -> int:
        return self.lines.num_skipped

    def read(self, index: int) -> Pair:
        line = self.lines.number(index)
        place = f"{self.lines.path}:{line}"
        value = parse(self.lines[index], place)
        columns = [field_of(value, field, "source_field", place) for field in self.source_fields]
        if len(columns) > 1 and (tabbed := next((text for text in columns if TAB in text), None)) is not None:
            raise DataError(f"{place}: {shorten(tabbed)} has a tab, which separates columns of a source; remove it.")
        target = field_of(value, self.target_field, "target_field", place)
        return Pair(TAB.join(columns), target, self.lines.path, line)


def parse(text: str, place: str) -> Any:
    """The JSON value of a line.

    Raises:
        DataError: if the line is not JSON; the message begins with the place.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" at column {error.colno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(f"{place}: not JSON{where}, in {shorten(text)}.") from None


def entry(value: Any, field: str | int) -> Any:
    """The value of a field; `translation.en` is `en` in the object `translation`, unless there is a field of that name.

    Raises:
        KeyError, IndexError: if there is none.

    >>> entry({"translation": {"en": "a house", "de": ["ein Haus"]}}, "translation.de.0")
    'ein Haus'
    """
    if isinstance(field, int):
        return value[field]
    if field in value:
        return value[field]
    for name in field.split("."):
        if isinstance(value, list) and name.isdecimal():
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value[name]
        else:
            raise KeyError(field)
    return value


def field_of(value: Any, field: Any, key: str, place: str) -> str:
    """The text of a field.

    Args:
        value: an object or a list.
        field: the name of a field, or the number of an entry.
        key: `source_field` or `target_field`, for messages.
        place: the beginning of messages.

    Raises:
        DataError: if there is no such field, or its value is not a text.
    """
    if isinstance(field, str) != isinstance(value, dict) or not isinstance(value, (dict, list)):
        kind = type(value).__name__ if not isinstance(value, dict) else f"an object with {', '.join(map(repr, value))}"
        raise DataError(
            f"{place}: data.{key} (--{key.replace('_', '-')}) is {field!r}, but the line holds {kind}.\n"
            "  Give the name of a field of JSON objects, or the number, from 0, of an entry of JSON lists."
        )
    try:
        text = entry(value, field)
    except KeyError:
        hint = suggestion(str(field), value, f"it has {', '.join(map(repr, value)) or 'none'}.")
        raise DataError(f"{place}: no field {field!r} (data.{key}); {hint}") from None
    except IndexError:
        raise DataError(f"{place}: no entry {field} (data.{key}), counted from 0; the list has {len(value)}.") from None
    if not isinstance(text, str):
        raise DataError(f"{place}: field {field!r} (data.{key}) must be text; got {shorten(json.dumps(text))}.")
    if has_half_pair(text):
        raise DataError(f"{place}: field {field!r} (data.{key}) has half a surrogate pair, not text: {text!a}.")
    return text


def has_half_pair(text: str) -> bool:
    """Whether a text has half a surrogate pair, which JSON can escape and no encoding can write."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)
