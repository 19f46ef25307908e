"""Keys that are read only where another one has some values: declared at the key, refused elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, JsonValue

from regard.config.place import KeyPath, cut

_CONDITIONS, _FREE = "only_with", "read_anyway"
Unread = tuple[KeyPath, str]
"""The path of a key that is read by nothing, and why."""


def only_with(key: str, *values: JsonValue, unless: Any = ..., free: Any = ...) -> dict[str, JsonValue]:
    """Marks a key, as its `json_schema_extra`, that is read only where another one has one of some values.

    Args:
        key: the other key: of the same section, or from the top if its name has dots.
        values: the values with which it is read.
        unless: in place of `values`, the one value with which it is not read; None stands for a section, too, none of
            whose keys has another value than its default.
        free: a value of the marked key that is read whatever the other key is, as its default is.
    """
    condition: list[JsonValue] = [key, list(values), unless is not ..., None if unless is ... else unless]
    return {_CONDITIONS: [condition], **({} if free is ... else {_FREE: free})}


def both(first: dict[str, JsonValue], second: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The marks of a key that is read only where two conditions hold."""
    return {_CONDITIONS: [*first[_CONDITIONS], *second[_CONDITIONS]]}  # type: ignore[misc]


def unread(
    section: BaseModel,
    judged: Callable[[KeyPath], bool],
    *,
    deep: bool = True,
    root: BaseModel | None = None,
    path: KeyPath = (),
) -> Iterator[Unread]:
    """The keys with another value than their default that nothing reads, in the order of the schema.

    Args:
        section: the whole configuration, or a section, of which only conditions within it are judged.
        judged: whether a key is refused where nothing reads it, which is to say that the user has set it.
        deep: whether sections within it are judged, too.
        root, path: the whole of which the section is a part, and its place there; the section itself if None.
    """
    root = section if root is None else root
    for name, field in type(section).model_fields.items():
        value, place = getattr(section, name), (*path, name)
        marks = field.json_schema_extra
        conditions: Any = marks.get(_CONDITIONS, ()) if isinstance(marks, dict) else ()
        free = (field.get_default(call_default_factory=True), marks.get(_FREE, ...)) if isinstance(marks, dict) else ()
        if conditions and value not in free and judged(place):
            for other, values, is_exception, exception in conditions:
                found = _value(root if "." in other else section, other)
                if found is not ... and (_is(found, exception) if is_exception else found not in values):
                    yield place, _message(name, other, found, values)
                    break
        if deep and isinstance(value, BaseModel):
            yield from unread(value, judged, root=root, path=place)


def _value(section: Any, key: str) -> Any:
    """The value of a dotted key; an ellipsis if the section has no such key."""
    for name in key.split("."):
        section = getattr(section, name, ...)
    return section


def _is(found: Any, exception: Any) -> bool:
    return bool(found == (type(found)() if exception is None and isinstance(found, BaseModel) else exception))


def _message(name: str, other: str, found: Any, values: list[Any]) -> str:
    if isinstance(found, Path):
        return f"{name} has no effect with a {other} file; leave out one of them"
    if isinstance(found, BaseModel):
        return f"{name} has no effect without {other}; leave it out, or set {other}"
    remedy = f"set {other}: {' or '.join(map(_shown, values))}" if values else f"give {other} another value"
    return f"{name} has no effect with {other}: {_shown(found)}; leave it out, or {remedy}"


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return cut(f"{value:g}" if isinstance(value, float) else str(value))
