"""Writes configurations, and lists the differences of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from regard.config.document import Loader
from regard.config.place import KeyPath, dotted
from regard.config.schema import Config


class _Absent:
    def __repr__(self) -> str:
        return "not set"


ABSENT: Final = _Absent()
"""The value in `differences` of a key that one side does not have, such as an option of another recipe."""


class _Dumper(yaml.SafeDumper):
    """Quotes every text that regard's or another YAML 1.1 reader would take for something else."""


for _first, _resolvers in Loader.yaml_implicit_resolvers.items():
    for _tag, _pattern in _resolvers:
        _Dumper.add_implicit_resolver(_tag, _pattern, [_first])
_Dumper.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)
)

_Dumper.add_representer(  # unquoted, line breaks other than \n would be read as \n
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"'
    ),
)


def dump(config: Config) -> str:
    """The whole configuration as YAML, every key in the order of the schema."""
    return written(config.model_dump())


def written(values: Mapping[str, Any]) -> str:
    """Nested dicts as YAML that is read as the same values."""
    return yaml.dump(_plain(dict(values)), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def save(config: Config, path: str | Path) -> None:
    """Writes the whole configuration; as its paths are absolute, `load` reads an equal one from any folder."""
    Path(path).write_text(dump(config), encoding="utf-8")


def differences(left: Config, right: Config) -> list[tuple[str, Any, Any]]:
    """The keys whose values differ, as (dotted path, left value, right value), in the order of the schema.

    >>> from regard.config.tasks.text_to_text import TextToTextConfig
    >>> a = TextToTextConfig(data={"train": "/a.tsv"})
    >>> differences(a, a.model_copy(update={"seed": 2}))
    [('seed', 1, 2)]
    """
    before, after = dict(_flat(_plain(left.model_dump()))), dict(_flat(_plain(right.model_dump())))
    rows = [(dotted(path), before.get(path, ABSENT), after.get(path, ABSENT)) for path in {**before, **after}]
    return [row for row in rows if row[1] != row[2]]


def _plain(value: Any) -> Any:
    """Paths as text and tuples as lists; pydantic's own JSON form would turn infinity into null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _flat(values: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from _flat(value, (*path, key))
    else:
        yield path, values
