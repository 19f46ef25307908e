"""Conditions of keys: a key that is read only with some values of another one is refused with the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, JsonValue

from regard.config.place import KeyPath, cut, yaml_text

_CONDITIONS, _FREE = "only_with", "read_anyway"
Unread = tuple[KeyPath, str]
"""The path of a key that nothing reads, and the reason."""


def only_with(key: str, *values: JsonValue, unless: Any = ..., free: Any = ...) -> dict[str, JsonValue]:
    """The `json_schema_extra` of a key that is read only with some values of another one.

    Args:
        key: the other key: of the same section, or from the top if its name has dots.
        values: the values with which the key is read.
        unless: instead of `values`, the only value with which it is not read; None includes a section that has all its
            defaults.
        free: a value of the marked key that is accepted with every value of the other one, like its default.
    """
    condition: list[JsonValue] = [key, list(values), unless is not ..., None if unless is ... else unless]
    return {_CONDITIONS: [condition], **({} if free is ... else {_FREE: free})}


def both(first: dict[str, JsonValue], second: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The `json_schema_extra` of a key that is read only if two conditions hold."""
    return {_CONDITIONS: [*first[_CONDITIONS], *second[_CONDITIONS]]}  # type: ignore[misc]


def unread(
    section: BaseModel,
    judged: Callable[[KeyPath], bool],
    *,
    deep: bool = True,
    root: BaseModel | None = None,
    path: KeyPath = (),
) -> Iterator[Unread]:
    """The keys with a value other than their default that nothing reads, in the order of the schema.

    Args:
        section: the whole configuration, or a section, of which only conditions within it are checked.
        judged: whether a key is refused if nothing reads it: whether the user has set it.
        deep: whether the sections within it are checked, too.
        root, path: the whole configuration and the section's place in it; the section itself if None.
    """
    root = section if root is None else root
    for name, field in type(section).model_fields.items():
        value, place = getattr(section, name), (*path, name)
        marks = field.json_schema_extra
        conditions: Any = marks.get(_CONDITIONS, ()) if isinstance(marks, dict) else ()
        free = (field.get_default(call_default_factory=True), marks.get(_FREE, ...)) if isinstance(marks, dict) else ()
        if conditions and value not in free and judged(place):
            for other, values, is_exception, exception in conditions:
                actual = _value(root if "." in other else section, other)
                if actual is not ... and (_is(actual, exception) if is_exception else actual not in values):
                    yield place, _message(name, other, actual, values)
                    break
        if deep and isinstance(value, BaseModel):
            yield from unread(value, judged, root=root, path=place)


def _value(section: Any, key: str) -> Any:
    """The value of a dotted key; an ellipsis if the section has no such key."""
    for name in key.split("."):
        section = getattr(section, name, ...)
    return section


def _is(value: Any, exception: Any) -> bool:
    return bool(value == (type(value)() if exception is None and isinstance(value, BaseModel) else exception))


def _message(name: str, other: str, value: Any, values: list[Any]) -> str:
    if isinstance(value, Path):
        return f"{name} has no effect with a {other} file; leave out one of them"
    if isinstance(value, BaseModel):
        return f"{name} has no effect without {other}; leave it out, or set {other}"
    remedy = f"set {other}: {' or '.join(map(yaml_text, values))}" if values else f"give {other} another value"
    return f"{name} has no effect with {other}: {cut(yaml_text(value))}; leave it out, or {remedy}"
