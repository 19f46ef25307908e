"""A checked configuration that knows where each of its values was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.config.place import Entry, KeyPath, dotted, legible
from regard.config.schema import Config
from regard.config.validation import place_of
from regard.errors import ConfigError


@dataclass(frozen=True)
class Configuration:
    """A whole configuration, and for messages the places it was read from.

    Two are equal when their values are, wherever they came from.

    Args:
        config: the values, defaults included, paths absolute.
        name: a short name, the file's stem or the preset's.
        origin: what was read, a file's path or `preset …`; None for values made in Python.
        entries: where each key stands.

    >>> from regard.config.schema import Config
    >>> Configuration(Config(data={"train": "pairs.tsv"})).config.training.epochs
    30
    """

    config: Config
    name: str = field(default="configuration", compare=False)
    origin: str | None = field(default=None, compare=False)
    entries: Mapping[KeyPath, Entry] = field(default_factory=dict, compare=False, repr=False)

    def locate(self, path: KeyPath) -> str | None:
        """Where a key is written, as `g2p.yaml:3:5`, `--set training.epochs=3` or, for a default, what was read."""
        entry = place_of(path, self.entries)
        return str(entry.key) if entry else self.origin

    def explain(self, error: ConfigError) -> ConfigError:
        """The same error, its text beginning with the place and name of the key that it is about.

        For what turns out only later, as an option that an attention recipe does not have. An error that is about no
        key, or is explained already, stays as it is.
        """
        if not error.path:
            return error
        entry = place_of(error.path, self.entries)
        where = self.locate(error.path)
        named = "" if entry and entry.named == error.path else legible(dotted(error.path))
        prefix = "".join(f"{part}: " for part in (where, named) if part)
        text = str(error)
        explained = error if text.startswith(prefix) else ConfigError(prefix + text, error.path)
        return explained.with_traceback(error.__traceback__)
