"""Every key of a schema with its type, default and meaning, from the pydantic models."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from regard.config.place import KeyPath

OF_THESE = "a list of these"
_NOUNS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a file name",
    dict[str, Any]: "ranges of keys",
}


@dataclass(frozen=True, slots=True)
class Member:
    """One of the types that a value may have, with its limits."""

    type: Any
    limits: tuple[Any, ...] = ()

    @property
    def section(self) -> type[BaseModel] | None:
        return self.type if isinstance(self.type, type) and issubclass(self.type, BaseModel) else None

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(map(str, get_args(self.type))) if get_origin(self.type) is Literal else ()

    @property
    def items(self) -> tuple[Member, ...]:
        """The types of the entries of a list."""
        if get_origin(self.type) is not tuple:
            return ()
        return tuple(member for item in get_args(self.type) if item is not Ellipsis for member in _members(item, ()))

    def __str__(self) -> str:
        if self.type is type(None):
            return "null"
        if self.choices:
            return f"one of {', '.join(self.choices)}" if len(self.choices) > 1 else repr(get_args(self.type)[0])
        if self.section:
            names = ", ".join(self.section.model_fields)
            return f"a section ({names}{' and options' if self.section.model_config.get('extra') == 'allow' else ''})"
        if get_origin(self.type) is tuple:
            items = get_args(self.type)
            if items[-1] is Ellipsis:
                return OF_THESE
            item = _members(items[0], ())[0]
            return f"a list of {len(items)} numbers{_range(item.limits)}"
        return f"{_NOUNS.get(self.type, self.type)}{_range(self.limits)}"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the schema."""

    path: tuple[str, ...]
    members: tuple[Member, ...]
    field: FieldInfo

    @property
    def sections(self) -> tuple[type[BaseModel], ...]:
        """The sections that the key may have; the first is the default."""
        return tuple(member.section for member in self.members if member.section)

    @property
    def section(self) -> type[BaseModel] | None:
        """The section that the key may have, or None; the first of several."""
        return next(iter(self.sections), None)

    def section_for(self, value: Any) -> type[BaseModel] | None:
        """The section that a value selects by its discriminator (`architecture: transformer`)."""
        name = self.field.discriminator
        kind = value.get(name) if isinstance(name, str) and isinstance(value, Mapping) else None
        return next((section for section in self.sections if kind in kinds(section, name)), self.section)

    @property
    def follows_from_data(self) -> bool:
        """Whether the value follows from the training data if the key is not set."""
        return bool(self._mark("follows_from_data"))

    @property
    def is_common(self) -> bool:
        """Whether the help of a command has the key without `--help-all`."""
        return bool(self._mark("common"))

    @property
    def is_of_converted_models(self) -> bool:
        """Whether the key exists so that a model of another program is a configuration."""
        return bool(self._mark("of_converted_models"))

    def _mark(self, name: str) -> Any:
        extra = self.field.json_schema_extra
        return extra.get(name) if isinstance(extra, dict) else None

    @property
    def may_be_null(self) -> bool:
        return any(member.type is type(None) for member in self.members)

    @property
    def is_path(self) -> bool:
        """Whether the value may be a file, or a list of files."""
        return any(Path in (member.type, *map(_inner, get_args(member.type))) for member in self.members)

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(choice for member in self.members for choice in member.choices)

    @property
    def expected(self) -> str:
        """The possible values as text.

        >>> from regard.config.schema import TrainingConfig
        >>> keys(TrainingConfig)["max_steps",].expected
        'a whole number of at least 1, or null'
        """
        words = list(dict.fromkeys(map(str, self.members)))
        if words[0] == OF_THESE:
            entries = Key((), tuple(_members(get_args(self.members[0].type)[0], ())), self.field)
            words[0] = f"a list of which each entry is {entries.expected}"
        comma = "," if " " in words[0] else ""
        return f"{', '.join(words[:-1])}{comma} or {words[-1]}" if len(words) > 1 else words[0]


def _range(limits: Iterable[Any]) -> str:
    words = {}
    for limit in limits:
        for kind, word in ((Ge, "at least"), (Gt, "above"), (Le, "at most"), (Lt, "below")):
            if isinstance(limit, kind):
                bound = getattr(limit, kind.__name__.lower())
                words[word] = f"{bound:g}" if isinstance(bound, float) else str(bound)
    if set(words) == {"at least", "at most"}:
        return f" from {words['at least']} to {words['at most']}"
    text = " and ".join(f"{word} {bound}" for word, bound in words.items())
    return f" of {text}" if text.startswith("at least") else f" {text}" if text else ""


def _members(annotation: Any, limits: Iterable[Any]) -> list[Member]:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return [member for part in get_args(annotation) for member in _members(part, limits)]
    if origin is Annotated:
        inner, *extra = get_args(annotation)
        own_limits = [limit for item in extra for limit in (item.metadata if isinstance(item, FieldInfo) else [item])]
        return _members(inner, [*limits, *own_limits])
    return [Member(annotation, tuple(limits))]


def _inner(annotation: Any) -> Any:
    """A type without the limits of an annotation."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def kinds(section: type[BaseModel], discriminator: object) -> tuple[Any, ...]:
    """The values of the discriminator that select a section."""
    field = section.model_fields.get(discriminator) if isinstance(discriminator, str) else None
    return get_args(field.annotation) if field is not None else ()


def keys(schema: type[BaseModel], values: Any = None) -> dict[KeyPath, Key]:
    """All keys of a schema by path, in its order; a section comes before its keys.

    Args:
        values: nested dicts, which select among several sections of a key; the first sections if None.
    """
    return dict(_first_keys(schema) if values is None else ((key.path, key) for key in _keys(schema, (), values)))


@cache
def _first_keys(schema: type[BaseModel]) -> dict[KeyPath, Key]:
    return {key.path: key for key in _keys(schema, (), None)}


def _keys(section: type[BaseModel], path: tuple[str, ...], values: Any) -> Iterator[Key]:
    for key in keys_of(section, path):
        yield key
        value = values.get(key.path[-1]) if isinstance(values, Mapping) else None
        if (inner := key.section_for(value)) is not None:
            yield from _keys(inner, key.path, value)


@dataclass(frozen=True, slots=True)
class SectionPlace:
    """A section at a place of a schema, such as `model` with `architecture: transformer`.

    Args:
        path: the key of the section; empty for the whole configuration.
        kind: the discriminator that selects it among the sections of the key; empty if it is the only one.
    """

    path: tuple[str, ...]
    kind: str
    section: type[BaseModel]


def places(schema: type[BaseModel]) -> Iterator[SectionPlace]:
    """Every section of a schema, of all kinds, each before the sections within it.

    >>> from regard.tasks.documents.config import DocumentsConfig
    >>> [place.kind for place in places(DocumentsConfig) if place.path == ("model",)]
    ['architecture: hierarchical', 'architecture: flat']
    """
    yield from _places(schema, (), "")


def _places(section: type[BaseModel], path: tuple[str, ...], kind: str) -> Iterator[SectionPlace]:
    yield SectionPlace(path, kind, section)
    for key in keys_of(section, path):
        name = key.field.discriminator
        for inner in key.sections:
            chosen = f"{name}: {inner.model_fields[name].default}" if isinstance(name, str) else kind
            yield from _places(inner, key.path, chosen)


def keys_of(section: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[Key]:
    """The keys of a section, without those of sections within it."""
    for name, field in section.model_fields.items():
        yield Key((*path, name), tuple(_members(field.annotation, field.metadata)), field)
