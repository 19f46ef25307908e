"""Descriptions of the schema, for people and for editors."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticUndefined

from regard.config.keys import KEYS, Key
from regard.config.place import cut, dotted
from regard.config.schema import Config
from regard.config.spelling import suggestion
from regard.errors import ConfigError


def json_schema() -> dict[str, Any]:
    """The schema as JSON Schema 2020-12, for editors that complete and check YAML."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}


def describe() -> str:
    """Every key with its possible values, its default and its meaning: Markdown tables, one per section."""
    sections: dict[str, list[str]] = {"": []}
    titles = {"": "Top level"}
    for key in KEYS.values():
        path, parent = dotted(key.path), dotted(key.path[:-1])
        if key.section:
            titles[path], sections[path] = f"`{path}`: {key.field.description or ''}", []
        if not key.section or len(key.members) > 1:
            sections[parent].append(_row(key))
    head = "| key | value | default | meaning |\n|---|---|---|---|\n"
    tables = (f"## {titles[name]}\n\n{head}" + "\n".join(rows) for name, rows in sections.items() if rows)
    return "\n\n".join(tables) + "\n"


def key_list(section: str | None = None) -> str:
    """Every key with its possible values, its default and its meaning, as plain text.

    Args:
        section: a section or a key; only its keys are listed.

    Raises:
        ConfigError: if there is no such section or key.
    """
    shown = [
        key
        for key in KEYS.values()
        if (not key.section or len(key.members) > 1)
        and (section is None or f"{dotted(key.path)}.".startswith(f"{section}."))
    ]
    if not shown:
        names = [dotted(key.path) for key in KEYS.values()]
        hint = suggestion(section or "", names, [name for name in names if "." not in name])
        raise ConfigError(f"The configuration has no section or key {cut(section or '')!r}; {hint}")
    return "\n".join(
        f"{dotted(key.path)}: {key.expected}; default {_default(key).strip('`')}\n    {key.field.description or ''}"
        for key in shown
    )


def _row(key: Key) -> str:
    cells = (f"`{key.path[-1]}`", key.expected, _default(key), key.field.description or "")
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
