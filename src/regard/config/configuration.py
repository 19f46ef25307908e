"""Checked configurations with the places of their values; writes configurations, and compares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from regard.config.document import Loader, YamlDocument
from regard.config.place import Entry, KeyPath, Problem, dotted, error_of, legible
from regard.config.schema import Config
from regard.config.validation import place_of
from regard.errors import ConfigError


@dataclass(frozen=True)
class Configuration:
    """A whole configuration, with the places of its values for messages.

    Two configurations are equal if their values are equal.

    Args:
        config: the values, defaults included; paths are absolute.
        name: a short name: the stem of the file, or the name of the preset.
        origin: the path of the file, or `preset …`; None for values made in Python.
        entries: the place of each key.
        unread: the keys that were set but that nothing reads in this configuration.
        document: the values as they were read, with overrides, from which `regard.config.ranges` makes others; None for
            values made in Python.
        inherited: the origin of values that the user has not set: a preset, or the configuration of a saved model.

    >>> from regard.tasks.text_to_text.config import TextToTextConfig
    >>> Configuration(TextToTextConfig(data={"train": "pairs.tsv"})).config.training.epochs
    30
    """

    config: Config
    name: str = field(default="configuration", compare=False)
    origin: str | None = field(default=None, compare=False)
    entries: Mapping[KeyPath, Entry] = field(default_factory=dict, compare=False, repr=False)
    unread: tuple[Problem, ...] = field(default=(), compare=False, repr=False)
    document: YamlDocument | None = field(default=None, compare=False, repr=False)
    inherited: str | None = field(default=None, compare=False, repr=False)

    def check_unread(self) -> None:
        """Raises ConfigError for keys that were set but that nothing reads; only new runs call it."""
        if self.unread:
            raise error_of(list(self.unread))

    def located(self, error: ConfigError) -> ConfigError:
        """The same error, with a text that begins with the place and the name of the key.

        The place is, for example, `g2p.yaml:3:5` or `--set training.epochs=3`; for a default, `origin`. This is for
        errors after loading, such as an option that an attention recipe does not have. An error without a key, or with
        its place, is returned unchanged.
        """
        if not error.path:
            return error
        entry = place_of(error.path, self.entries)
        where = str(entry.key) if entry else self.origin
        key = "" if entry and entry.override == error.path else legible(dotted(error.path))
        prefix = "".join(f"{part}: " for part in (where, key) if part)
        text = str(error)
        result = error if text.startswith(prefix) else ConfigError(prefix + text, error.path)
        return result.with_traceback(error.__traceback__)


class _Absent:
    def __repr__(self) -> str:
        return "not set"


ABSENT: Final = _Absent()
"""The value in `differences` of a key that one side lacks, such as an option of another recipe."""


class _Dumper(yaml.SafeDumper):
    """Quotes every text that a YAML 1.1 reader, that of regard or another, would not read as a text."""


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


def written(values: Any) -> str:
    """Nested dicts, or a single value, as YAML that is read as the same values."""
    return yaml.dump(plain(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def save(config: Config, path: str | Path) -> None:
    """Writes the whole configuration; as its paths are absolute, `load` reads an equal one from any folder."""
    Path(path).write_text(dump(config), encoding="utf-8")


def differences(left: Config, right: Config) -> list[tuple[str, Any, Any]]:
    """The keys whose values differ, as (dotted path, left value, right value), in the order of the schema.

    >>> from regard.tasks.text_to_text.config import TextToTextConfig
    >>> a = TextToTextConfig(data={"train": "/a.tsv"})
    >>> differences(a, a.model_copy(update={"seed": 2}))
    [('seed', 1, 2)]
    """
    return differing(left.model_dump(), right.model_dump())


def differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """The keys whose values differ in nested dicts, as `differences` has them."""
    before, after = dict(_flat(plain(left))), dict(_flat(plain(right)))
    rows = [(dotted(path), before.get(path, ABSENT), after.get(path, ABSENT)) for path in {**before, **after}]
    return [row for row in rows if row[1] != row[2]]


def plain(value: Any) -> Any:
    """Paths as text and tuples as lists; pydantic's own JSON form would turn infinity into null."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _flat(values: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from _flat(value, (*path, key))
    else:
        yield path, values
