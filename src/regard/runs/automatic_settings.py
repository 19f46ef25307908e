"""Settings that follow from the data where a configuration does not set them; a continued run keeps their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from regard.config import Config
from regard.config.keys import keys
from regard.config.place import KeyPath, dotted, yaml_text
from regard.config.schema import Section, is_set
from regard.config.texts import SideConfig
from regard.data.text.field import learns_pieces

ConfigT = TypeVar("ConfigT", bound=Config)


@dataclass(frozen=True)
class AutomaticSettings(Generic[ConfigT]):
    """A configuration and the values that are chosen for keys that it does not set.

    Args:
        original: the configuration as it was read: a key is set if the file, the preset or an override has it.
        chosen: the values, by dotted key.
    """

    original: ConfigT
    chosen: dict[str, Any] = field(default_factory=dict)

    def choose(self, key: str, value: Any) -> Any:
        """The value of the configuration if it sets the key, else this value."""
        path = tuple(key.split("."))
        if is_set(self.original, path):
            return value_of(self.original, path)
        self.chosen[key] = value
        return value

    @property
    def config(self) -> ConfigT:
        """The configuration with the chosen values."""
        return replaced(self.original, self.chosen)

    def __str__(self) -> str:
        """A line with the values, or an empty text."""
        values = ", ".join(f"{key}={yaml_text(value)}" for key, value in self.chosen.items())
        return f"plan: not set in the configuration, chosen for these data: {values}" * bool(values)


def automatic_keys(config: Config) -> list[KeyPath]:
    """The keys that follow from the data because they are not set.

    Among them are the held-out share if there is no held-out file, and the number of pieces that are learned.
    """
    paths: list[KeyPath] = [
        key.path
        for key in keys(type(config), config.model_dump()).values()
        if key.follows_from_data and not is_set(config, key.path)
    ]
    data: Any = config.data
    if "dev_fraction" in type(data).model_fields and data.dev is None and data.dev_fraction is None:
        paths.append(("data", "dev_fraction"))
    for name in ("source", "target"):
        side = getattr(data, name, None)
        if isinstance(side, SideConfig) and side.vocabulary_size is None and learns_pieces(side):
            paths.append(("data", name, "vocabulary_size"))
    return paths


def adopt(config: ConfigT, resolved: ConfigT, paths: Iterable[KeyPath] | None = None) -> ConfigT:
    """The configuration with the values of a resolved one for some keys; for all its automatic keys if None."""
    paths = automatic_keys(config) if paths is None else paths
    return replaced(config, {dotted(path): value_of(resolved, path) for path in paths})


def value_of(config: Section, path: KeyPath) -> Any:
    """The value of a key."""
    value: Any = config
    for name in path:
        value = getattr(value, str(name))
    return value


def replaced(section: Any, values: Mapping[str, Any]) -> Any:
    """A copy of a section with some values replaced, by dotted key."""
    if not values:
        return section
    changed: dict[str, Any] = {}
    for name in dict.fromkeys(key.partition(".")[0] for key in values):
        inner = {key.partition(".")[2]: value for key, value in values.items() if key.partition(".")[0] == name}
        changed[name] = inner[""] if "" in inner else replaced(getattr(section, name), inner)
    return section.model_copy(update=changed)


def two_digits(value: float) -> int:
    """A number with two significant digits, so that slightly more data does not change every number."""
    return int(float(f"{value:.2g}"))
