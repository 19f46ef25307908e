"""What YAML reads in a file otherwise than it was meant, where the schema expects texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.config.document import holds_text, is_integer
from regard.config.keys import Key
from regard.config.place import Entry, KeyPath, Problem, cut

_SIGNS = ("#", "!", "&")


def misreadings(key: Key, value: Any, entries: Mapping[KeyPath, Entry]) -> Iterator[Problem]:
    """The problems of a value: a comment in its place, or a number, a switch or null among texts.

    Args:
        value: as it was read.
        entries: the places of values, with what is written there.
    """
    if not holds_text(key):
        return
    types = {member.type for member in key.members}
    if not isinstance(value, list):
        found: list[tuple[KeyPath, Any, set[Any]]] = [(key.path, value, types)]
    else:
        inner = {item.type for member in key.members for item in member.items}
        found = [((*key.path, index), item, inner) for index, item in enumerate(value)]
    for path, item, allowed in found:
        entry = entries.get(path) or entries[key.path]
        if what := _misreading(item, allowed, entry.written or "", in_list=path != key.path):
            yield Problem(entry.value, key.path, what, entry.override)


def _misreading(value: Any, types: set[Any], written: str, *, in_list: bool) -> str | None:
    shown = cut(written, 40)
    if value == "" and written in ("|", ">"):
        return f"{written} begins a block of lines in YAML; write '{written}' in quotes to mean the text"
    if value == "" and Path in types and str not in types:
        return f"expected a file name; got ''{'; write null, or leave the key out' if type(None) in types else ''}"
    if value is None and written.startswith(_SIGNS) and not written[1:2].isspace():
        sign = {"#": "a comment", "!": "a tag", "&": "an anchor"}[written[0]]
        return f"'{shown}' is {sign} in YAML, so there is no value; put a text in quotes, or write null"
    if not written or isinstance(value, str):
        return None
    is_other_number = type(value) is int and int in types and not is_integer(written)
    if is_other_number or (in_list and type(value) not in types):
        read = "null" if value is None else str(value).lower()
        number = f"write {read} for the number, or " if is_other_number else "write "
        return (
            f"YAML reads {shown} as {'a number' if read == written else read}; {number}'{shown}' in quotes to mean "
            "the text"
        )
    return None
