"""A checked configuration with the place where each of its values was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.config.place import Entry, KeyPath, Problem, dotted, legible, refuse
from regard.config.schema import Config
from regard.config.validation import place_of
from regard.errors import ConfigError


@dataclass(frozen=True)
class Configuration:
    """A whole configuration, with the places that it was read from, for messages.

    Two configurations are equal if their values are equal, wherever these were read.

    Args:
        config: the values, defaults included; paths are absolute.
        name: a short name: the stem of the file, or the name of the preset.
        origin: the path of the file, or `preset …`; None for values made in Python.
        entries: the place of each key.
        unread: the keys that were set though nothing reads them in this configuration.

    >>> from regard.config.tasks.text_to_text import TextToTextConfig
    >>> Configuration(TextToTextConfig(data={"train": "pairs.tsv"})).config.training.epochs
    30
    """

    config: Config
    name: str = field(default="configuration", compare=False)
    origin: str | None = field(default=None, compare=False)
    entries: Mapping[KeyPath, Entry] = field(default_factory=dict, compare=False, repr=False)
    unread: tuple[Problem, ...] = field(default=(), compare=False, repr=False)

    def refuse_unread(self) -> None:
        """Refuses keys that were set though nothing reads them. A run that has begun with them is continued."""
        if self.unread:
            raise refuse(list(self.unread))

    def located(self, error: ConfigError) -> ConfigError:
        """The same error, with a text that begins with the place and the name of the key.

        The place is, for example, `g2p.yaml:3:5` or `--set training.epochs=3`; for a default, `origin`. This is for
        errors that are noticed after loading, such as an option that an attention recipe does not have. An error
        without a key, or one that has its place already, is returned unchanged.
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
