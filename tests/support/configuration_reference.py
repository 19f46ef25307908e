"""The reference of all keys of configurations, in Markdown, for the documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from functools import cache

from pydantic import BaseModel

from regard.config.description import default, is_listed
from regard.config.keys import Key, SectionPlace, keys_of, places
from regard.config.place import dotted
from regard.config.schema import SCHEMAS, Config, Section

Schema = type[BaseModel]
HEAD = "| key | value | default | meaning |\n|---|---|---|---|\n"
SHARED = "Sections that tasks share"
CONVERTED = "Keys of converted models"


def describe() -> str:
    """Every key with its possible values, its default and its meaning.

    For each task there is a list of its sections with the names of their keys, then a table for each section of its
    own. Then come sections that several tasks have, or that theirs extend, and last the keys that exist so that a model
    of another program is a configuration.
    """
    shared = [section for section in _uses() if _is_shared(section)]
    chapters = [*map(_task, SCHEMAS), f"## {SHARED}", *map(_shared, shared), f"## {CONVERTED}", _converted()]
    return "\n\n".join(chapters) + "\n"


def _converted() -> str:
    """The keys that exist so that a model of another program is a configuration, of all sections."""
    rows: dict[str, list[str]] = {}
    for section, uses in _uses().items():
        for key in (key for key in _own(section) if key.is_of_converted_models):
            rows.setdefault(_row(key), []).extend(place for held in uses.values() for place in held)
    lines = [f"{row} {', '.join(dict.fromkeys(held))} |" for row, held in rows.items()]
    intro = "These keys are for converted models of other programs; `regard list keys --all` lists them too."
    head = HEAD.replace("meaning |\n", "meaning | in |\n").replace("---|\n", "---|---|\n")
    return f"{intro}\n\n{head}" + "\n".join(lines)


@cache
def _uses() -> dict[Schema, dict[str, list[str]]]:
    """By section, and by task, the places that hold it or one that extends it."""
    uses: dict[Schema, dict[str, list[str]]] = {}
    for task, schema in SCHEMAS.items():
        for place in places(schema):
            for section in (place.section, *_extended(place.section)):
                uses.setdefault(section, {}).setdefault(task, []).append(f"`{dotted(place.path)}`")
    return uses


def _is_shared(section: Schema) -> bool:
    return len(_uses().get(section, ())) > 1


def _extended(section: Schema) -> Iterable[Schema]:
    """The sections whose keys a section has besides its own."""
    for base in section.__bases__:
        if issubclass(base, BaseModel) and base not in (BaseModel, Section, Config):
            yield base
            yield from _extended(base)


def _task(task: str) -> str:
    """The chapter of a task."""
    names = _names(SCHEMAS[task])
    rows = [f"| {_linked(task, section, name)} | {_keys(section)} |" for section, name in names.items()]
    tables = [
        f"### {task}: {name}\n\n{_table(section)}"
        for section, name in names.items()
        if not _is_shared(section) and _own(section)
    ]
    chapter = f"## `task: {task}`\n\n| section | keys |\n|---|---|\n" + "\n".join(rows)
    return "\n\n".join([chapter, *tables])


def _shared(section: Schema) -> str:
    """A section that several tasks have."""
    tasks: dict[str, list[str]] = {}
    for task, held in _uses()[section].items():
        tasks.setdefault(", ".join(dict.fromkeys(held)), []).append(f"`{task}`")
    names = "; ".join(f"{paths} of {', '.join(having)}" for paths, having in tasks.items())
    return f"### {_title(section)}\n\n{names}\n\n{_table(section)}"


def _table(section: Schema) -> str:
    rows = [_row(key) for key in _own(section) if is_listed(key)]
    bases = [base for base in _extended(section) if _is_shared(base)]
    text = HEAD + "\n".join(rows) if rows else ""
    if bases:
        links = ", ".join(_link(_title(base)) for base in bases)
        text += f"{chr(10) * 2 if rows else ''}And the other keys of: {links}."
    return text


def _keys(section: Schema) -> str:
    """The keys of a section by name, those of shared sections by a link."""
    if _is_shared(section):
        return _link(_title(section))
    names = " ".join(f"`{key.path[-1]}`" for key in _own(section) if is_listed(key))
    links = [_link(_title(base)) for base in _extended(section) if _is_shared(base)]
    return " · ".join([names] * bool(names) + links)


def _own(section: Schema) -> list[Key]:
    """The keys that a section does not have from one that it extends, or has with another default or meaning."""
    inherited = {name for base in _extended(section) if _is_shared(base) for name in base.model_fields}
    return [
        key
        for key in keys_of(section)
        if key.path[-1] not in inherited or key.path[-1] in inspect.get_annotations(section)
    ]


def _names(schema: type[Config]) -> dict[Schema, str]:
    """By section the places that hold it, as they are written; with its kind if the key may hold another one."""
    held: dict[Schema, list[SectionPlace]] = {}
    found: dict[tuple[str, ...], set[Schema]] = {}
    for place in places(schema):
        held.setdefault(place.section, []).append(place)
        found.setdefault(place.path, set()).add(place.section)

    def name(place: SectionPlace) -> str:
        kind = f" with `{place.kind}`" if place.kind and len(found[place.path]) > 1 else ""
        return f"`{dotted(place.path)}`{kind}" if place.path else "top level"

    return {section: ", ".join(dict.fromkeys(map(name, each))) for section, each in held.items()}


def _title(section: Schema) -> str:
    """The beginning of the section's docstring."""
    return re.split(r"[,.:]", inspect.getdoc(section) or section.__name__)[0]


def _linked(task: str, section: Schema, name: str) -> str:
    return name if _is_shared(section) or not _own(section) else f"[{name}](#{_anchor(f'{task}: {name}')})"


def _link(title: str) -> str:
    return f"[{title[0].lower()}{title[1:]}](#{_anchor(title)})"


def _anchor(title: str) -> str:
    """The name that GitHub and MyST give a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _row(key: Key) -> str:
    cells = (f"`{key.path[-1]}`", key.expected, default(key), key.field.description or "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
