"""Reads a configuration from a file or a preset and overrides, and checks it against the schema.

Relative paths in a file start from the folder of the file, those in overrides from the working directory; the
configuration has absolute paths.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypedDict

import yaml

from regard.config.configuration import Configuration, written
from regard.config.document import YamlDocument, parse, parse_value
from regard.config.keys import Key, keys, keys_of, places
from regard.config.place import Entry, KeyPath, Place, Problem, cut, dotted, error_of, legible
from regard.config.ranges import check_ranges
from regard.config.schema import SCHEMAS
from regard.config.spelling import did_you_mean, nearest, suggestion
from regard.config.validation import unread_settings, validate, value_at, with_value
from regard.errors import ConfigError, Option

Settings = Sequence[str] | Mapping[str, Any]
"""Overrides: texts `section.key=value`, or values of Python by dotted key or in nested sections."""
MAX_BYTES = 16 << 20
DATA = (".tsv", ".tab", ".jsonl", ".ndjson", ".csv", ".txt")
"""Suffixes of files of pairs, which cannot be configurations."""
SAVED = ("run.json", "model.safetensors")
"""Files in the folder of the configuration of a run or of a saved model, or in the folder above."""
_PRESETS = resources.files("regard.config") / "presets"


def load(path: str | Path, overrides: Settings = ()) -> Configuration:
    """Reads a YAML file.

    Args:
        overrides: texts `section.key=value`; later ones win, and a section replaces a section. Values are read by
            `parse_value`. Or a mapping with values of Python, as `{"training.epochs": 3, "data": {"case": "lower"}}`,
            whose nested sections change only the keys that they have; another recipe of attention drops the options of
            the former one.

    Raises:
        ConfigError: for all problems at once, one per line, for example
            `g2p.yaml:3:3: model.encoder.sise: unknown key; did you mean 'size'?`.
    """
    path = Path(path)
    if path.suffix.lower() in DATA and path.is_file():
        raise ConfigError(
            f"{legible(str(path))}: the file has data, not a configuration; a preset (`regard list presets`) uses it:\n"
            f"  regard train --preset text-to-text --set data.train={shlex.quote(str(path))}"
        )
    document = parse(_text(path), origin=str(path), folder=path.absolute().parent)
    inherited = any((folder / name).exists() for folder in (path.parent, path.parent.parent) for name in SAVED)
    return _build(document, overrides, name=path.stem, origin=str(path), inherited=inherited)


def from_preset(name: str, overrides: Settings = ()) -> Configuration:
    """Reads a preset by its name; an override has to set `data.train`.

    An override with another recipe of attention drops the preset's options of its recipe.

    Raises:
        ConfigError: if there is no such preset, or as in `load`.

    >>> from_preset("g2p", ["data.train=pairs.tsv", "training.epochs=3"]).config.training.epochs
    3
    """
    names = presets()
    if name not in names:
        raise ConfigError(f"There is no preset {cut(name)!r}; {suggestion(name, names)}")
    origin = f"preset {name}"
    document = parse(preset_text(name), origin=origin, folder=Path.cwd(), lines=False)
    for setting in _settings(overrides):
        document = _without_options(document, setting)
    return _build(document, overrides, name=name, origin=origin, inherited=True)


def from_values(values: Mapping[str, Any], overrides: Settings = ()) -> Configuration:
    """Reads nested dicts, with the keys of a file; relative paths start from the working directory.

    Raises:
        ConfigError: as in `load`, with the name of the key.

    >>> from_values({"data": {"train": "pairs.tsv"}, "training": {"epochs": 3}}).config.training.epochs
    3
    """
    origin = "the configuration"
    document = parse(_yaml(values, origin), origin=origin, folder=Path.cwd(), lines=False)
    return _build(document, overrides, name="configuration", origin=origin, inherited=False)


def preset_text(name: str) -> str:
    """The YAML of a preset."""
    return (_PRESETS / f"{name}.yaml").read_text(encoding="utf-8")


def presets() -> dict[str, str]:
    """The name of every preset, with its purpose: the first line of its file."""
    files = sorted((file for file in _PRESETS.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    return {
        file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        for file in files
    }


class _Where(TypedDict):
    origin: str
    folder: Path
    order: int
    override: KeyPath


@dataclass(frozen=True, slots=True)
class _Setting:
    """An override: the path of its key, its origin in messages, and its value as YAML.

    Args:
        is_text: whether the value is as on a command line, where the type of the key decides how it is read.
    """

    path: KeyPath
    origin: str
    written: str
    is_text: bool = True

    @property
    def word(self) -> str:
        """The value, if it is a word."""
        return self.written.partition("\n")[0].strip()


def _settings(overrides: Settings) -> list[_Setting]:
    """The overrides, one for each key."""
    if not isinstance(overrides, Mapping):
        settings = []
        for order, text in enumerate(overrides, start=1):
            name, equals, value = text.partition("=")
            path, origin = tuple(part.strip() for part in name.split(".")), f"{Option('--set ', '')}{cut(text)}"
            if not equals or not all(path):
                place = Place(order, 0, 0, origin)
                raise error_of([Problem(place, (), "expected section.key=value, for example training.epochs=10")])
            # the blanks around the equals sign of `key = value` are removed
            settings.append(_Setting(path, origin, value.strip() if name.endswith(" ") else value))
        return settings
    return [
        _Setting(path, origin := f"settings[{dotted(path)!r}]", _yaml(value, origin), is_text=False)
        for path, value in _leaves(overrides)
    ]


def _leaves(values: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """The values of nested sections by their paths; names may have periods."""
    for name, value in values.items():
        inner: KeyPath = (*path, *(name.split(".") if isinstance(name, str) else (name,)))
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, inner)
        else:
            yield inner, value


def _yaml(value: Any, origin: str) -> str:
    try:
        return written(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"{origin} has a value that YAML cannot express: {str(error).splitlines()[0]}") from None


def _build(document: YamlDocument, overrides: Settings, *, name: str, origin: str, inherited: bool) -> Configuration:
    settings = _settings(overrides)
    tasks = [setting.word for setting in settings if setting.path == ("task",)]
    task = tasks[-1] if tasks else value_at(("task",), document.values)
    for setting in settings:
        if not setting.is_text:
            document = _without_options(document, setting)
    for order, setting in enumerate(settings, start=1):
        document = _override(document, setting, order, task)
    config = validate(document.values, document.entries, document.problems)
    source = origin if inherited else None
    unread = unread_settings(config, document.entries, source)
    configuration = Configuration(config, name, origin, document.entries, unread, document, source)
    if config.sweep is not None:
        check_ranges(configuration)
    return configuration


def _override(base: YamlDocument, setting: _Setting, order: int, task: object) -> YamlDocument:
    """The document with one key replaced, without the problems of the replaced part."""
    path, where = setting.path, _Where(origin=setting.origin, folder=Path.cwd(), order=order, override=setting.path)
    if setting.is_text:
        document = parse_value(setting.written, _key(path, base.values, task), **where)
    else:
        document = parse(setting.written, lines=False, **where)
    plain = [path[:n] for n in range(1, len(path) + 1) if not isinstance(value_at(path[:n], base.values), dict)]
    start = min([path, *plain], key=len)  # a value above the key that is not a section is replaced by one
    kept: dict[KeyPath, Entry] = {p: entry for p, entry in base.entries.items() if p[: len(start)] != start}
    problems = [problem for problem in base.problems if not problem.path or problem.path[: len(start)] != start]
    values = with_value(base.values, path, document.values)
    return YamlDocument(values, {**document.entries, **kept}, [*problems, *document.problems])


def _key(path: KeyPath, values: object, task: object) -> Key | None:
    """The key of the schema that an override names: of the sections that the values select, or of another kind."""
    schema = SCHEMAS[task if isinstance(task, str) and task in SCHEMAS else next(iter(SCHEMAS))]
    if (key := keys(schema, values).get(path)) is not None:
        return key
    every = (key for place in places(schema) for key in keys_of(place.section, place.path))
    return next((key for key in every if key.path == path), None)


def _without_options(preset: YamlDocument, setting: _Setting) -> YamlDocument:
    """The preset without the options of its recipe of attention, if the override names another recipe."""
    path = setting.path
    section = value_at(path[:-1], preset.values)
    if path[-1] != "recipe" or not isinstance(section, dict) or section.get("recipe") == setting.word:
        return preset
    recipe = {key: value for key, value in section.items() if key == "recipe"}
    return replace(preset, values=with_value(preset.values, path[:-1], recipe))


def _text(path: Path) -> str:
    name = legible(str(path))
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file; {_alternative(path)}") from None
    except IsADirectoryError:
        inside = path / "config.yaml"
        hint = f"; did you mean {str(inside)!r}?" if inside.exists() else "; give a YAML file"
        raise ConfigError(f"{name}: this is a folder{hint}") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # a NUL in the name
        raise ConfigError(f"{name}: cannot be read: {error}") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{name}: the file is larger than {MAX_BYTES >> 20} MiB, too large for a configuration")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{name}:{line}: byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def _alternative(path: Path) -> str:
    if str(path) in presets():
        return f"for the preset of that name, use {Option(f'--preset {path}', f'from_preset({str(path)!r})')}"
    folder = path.parent
    names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    similar = nearest(path.name, [name for name in names if name.endswith((".yaml", ".yml"))])
    return did_you_mean(str(folder / similar)) if similar else "`regard list presets` lists the presets"
