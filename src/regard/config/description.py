"""Descriptions of the schema: a list of keys, and a JSON Schema for editors."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticUndefined

from regard.config.keys import Key, keys_of, places
from regard.config.place import cut, dotted, yaml_text
from regard.config.schema import SCHEMAS, Config
from regard.config.spelling import suggestion
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


def key_list(section: str | None = None, *, task: str | None = None, converted: bool = False) -> str:
    """Every key with its possible values, its default and its meaning, as plain text.

    A key that not all tasks have with this description is listed with its tasks.

    Args:
        section: a section or a key; only its keys are listed.
        task: only the keys of this task are listed.
        converted: also lists keys that exist so that a model of another program is a configuration. Without it such a
            key is listed only if `section` is its name.
    """
    if task is not None and task not in SCHEMAS:
        raise ConfigError(f"There is no task {cut(task)!r}; {suggestion(task, SCHEMAS)}", ("task",))
    schemas = SCHEMAS if task is None else {task: SCHEMAS[task]}
    tasks: dict[tuple[str, str, str], list[str]] = {}  # by path, kind and text
    for name, schema in schemas.items():
        for entry in _entries(schema, section, converted=converted):
            tasks.setdefault(entry, []).append(name)
    shown = [entry for entry in tasks if section is None or f"{entry[0]}.".startswith(f"{section}.")]
    order = list(Config.model_fields)
    if not shown:
        hint = suggestion(section or "", [*order, *(path for path, _, _ in tasks)], f"there are {', '.join(order)}")
        whose = "The configuration" if task is None else task
        raise ConfigError(f"{whose} has no section or key {cut(section or '')!r}; {hint}")
    shown.sort(key=lambda entry: order.index(entry[0].partition(".")[0]))
    lines = []
    for path, kind, text in shown:
        owners = tasks[path, kind, text]
        marks = [kind] * bool(kind) + [", ".join(owners)] * (len(owners) < len(schemas))
        lines.append(f"{path}{''.join(f' ({mark})' for mark in marks)}: {text}")
    return "\n".join(lines)


def _entries(schema: type[Config], named: str | None, *, converted: bool) -> list[tuple[str, str, str]]:
    """The keys of a task: path, kind of the section if not all kinds have the key, and text."""
    kinds: dict[tuple[str, str], list[str]] = {}
    every: set[str] = set()
    for place in places(schema):
        every |= {place.kind} - {""}
        for key in keys_of(place.section, place.path):
            if not is_listed(key, converted=converted or dotted(key.path) == named):
                continue
            text = f"{key.expected}; default {default(key).strip('`')}\n    {key.field.description or ''}"
            kinds.setdefault((dotted(key.path), text), []).append(place.kind)
    return [
        (path, kind, text)
        for (path, text), having in kinds.items()
        for kind in ([""] if every <= set(having) else dict.fromkeys(having))
    ]


def is_listed(key: Key, *, converted: bool = False) -> bool:
    """Whether lists have a key: one that may have a value other than a section.

    Args:
        converted: includes keys that exist so that a model of another program is a configuration.
    """
    has_value = not key.section or any(member.section is None for member in key.members)
    return has_value and (converted or not key.is_of_converted_models)


def default(key: Key) -> str:
    """The default of a key, in Markdown."""
    value = key.field.default
    if key.follows_from_data:
        return "from the data"
    if value is PydanticUndefined:
        return "required"
    if key.section and value is not None:
        return "a section"
    return f"`{value if isinstance(value, float) else yaml_text(value)}`"
