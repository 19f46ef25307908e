"""What a reader of another program's models is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import ConfigError
from regard.runs.contract import AbstractModel

UNKNOWN_DATA = Path("unknown")
"""The training data of a converted model (`data.train`), which its files do not name."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a model is read from.

    Args:
        path: its file or folder.
        files: further files by name, as `AbstractKind.files` describes them.
        facts: what no file says, by name, as `AbstractKind.facts` describes them.
    """

    path: Path
    files: Mapping[str, Path] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Converted:
    """What a reader returns.

    Args:
        model: the model, with its configuration, vocabularies and weights.
        notes: what of the old settings could not be carried over, or differs from what the old program did; a sentence
            each, for the command line and the model's card.
    """

    model: AbstractModel[Any]
    notes: tuple[str, ...] = ()


class AbstractKind(ABC):
    """A kind of models of another program, and how they are read.

    A reader builds the configuration of a task, its vocabularies and its network, and gives the network the weights by
    a table of names (`regard.interop.named_weights`). What the network cannot express it refuses by name and value.
    """

    summary: ClassVar[str]
    """The program and its version, and what of it is read."""
    files: ClassVar[Mapping[str, str]] = {}
    """Further files that a model may need, by name, with what they are."""
    facts: ClassVar[Mapping[str, str]] = {}
    """What no file of a model may say, by name, with what it is."""

    @abstractmethod
    def read(self, origin: Origin) -> Converted:
        """The model.

        Raises:
            DataError: for files that are missing or damaged, and for weights that are missing, left over or of another
                shape, by their names there.
            UnsupportedError: for an option that cannot be expressed here, by its name and value there.
        """

    def check(self, origin: Origin) -> None:
        """Refuses further files and facts that nothing reads.

        Raises:
            ConfigError: for such a name; the text has those that there are.
        """
        for what, given, known in (("file", origin.files, self.files), ("fact", origin.facts, self.facts)):
            for name in given:
                if name not in known:
                    listed = ", ".join(f"{other} ({text})" for other, text in known.items()) or "none"
                    raise ConfigError(f"--{what} {name}: nothing here reads it. There are: {listed}.")
