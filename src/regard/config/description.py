"""Descriptions of the schema, for people and for editors."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from regard.config.keys import Key, keys
from regard.config.place import cut, dotted
from regard.config.schema import Config
from regard.config.spelling import suggestion
from regard.config.tasks import SCHEMAS
from regard.errors import ConfigError


def json_schema() -> dict[str, Any]:
    """The schema as JSON Schema 2020-12, for editors that complete and check YAML."""
    kinds, definitions = [], {}
    for schema in SCHEMAS.values():
        kind = schema.model_json_schema()
        definitions.update(kind.pop("$defs", {}))
        kinds.append(kind)
    union = kinds[0] if len(kinds) == 1 else {"oneOf": kinds}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **union, "$defs": definitions}


def describe() -> str:
    """Every key with its possible values, its default and its meaning: Markdown tables, one per section."""
    if len(SCHEMAS) == 1:
        return _tables(next(iter(SCHEMAS.values())), "##")
    return "\n".join(f"## `task: {task}`\n\n{_tables(schema, '###')}" for task, schema in SCHEMAS.items())


def _tables(schema: type[Config], heading: str) -> str:
    sections: dict[str, list[str]] = {"": []}
    titles = {"": "Top level"}
    for key in keys(schema).values():
        path, parent = dotted(key.path), dotted(key.path[:-1])
        if key.section:
            titles[path], sections[path] = f"`{path}`: {key.field.description or ''}", []
        if not key.section or len(key.members) > 1:
            sections[parent].append(_row(key))
    for key in keys(schema).values():
        for other in key.sections[1:]:
            _add_kind(key, other, titles, sections)
    head = "| key | value | default | meaning |\n|---|---|---|---|\n"
    tables = (f"{heading} {titles[name]}\n\n{head}" + "\n".join(rows) for name, rows in sections.items() if rows)
    return "\n\n".join(tables) + "\n"


def _add_kind(key: Key, section: type[BaseModel], titles: dict[str, str], sections: dict[str, list[str]]) -> None:
    """Adds the keys of another section that a key may hold, those of inner sections by their whole names."""
    name = str(key.field.discriminator)
    path = f"{dotted(key.path)} ({name}: {section.model_fields[name].default})"
    titles[path], sections[path] = f"`{dotted(key.path)}` with `{path.partition('(')[2][:-1]}`", []
    for inner in keys(section).values():
        if not inner.section or len(inner.members) > 1:
            sections[path].append(_row(inner, dotted(inner.path)))


def key_list(section: str | None = None, *, task: str = next(iter(SCHEMAS))) -> str:
    """Every key of a task with its possible values, its default and its meaning, as plain text.

    Args:
        section: a section or a key; only its keys are listed.

    Raises:
        ConfigError: if there is no such section or key.
    """
    known = keys(SCHEMAS[task]).values()
    shown = [
        key
        for key in known
        if (not key.section or len(key.members) > 1)
        and (section is None or f"{dotted(key.path)}.".startswith(f"{section}."))
    ]
    if not shown:
        names = [dotted(key.path) for key in known]
        hint = suggestion(section or "", names, [name for name in names if "." not in name])
        raise ConfigError(f"The configuration has no section or key {cut(section or '')!r}; {hint}")
    return "\n".join(
        f"{dotted(key.path)}: {key.expected}; default {_default(key).strip('`')}\n    {key.field.description or ''}"
        for key in shown
    )


def _row(key: Key, name: str | None = None) -> str:
    cells = (f"`{name or key.path[-1]}`", key.expected, _default(key), key.field.description or "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(key: Key) -> str:
    value = key.field.default
    if key.follows_from_data:
        return "from the data"
    if value is PydanticUndefined:
        return "required"
    if key.section and value is not None:
        return "a section"
    if isinstance(value, tuple):
        value = list(value)
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else value}`"
