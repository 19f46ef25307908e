"""The interface of readers of other programs' models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import ConfigError, Option
from regard.runs.contract import AbstractModel

UNKNOWN_DATA = Path("unknown")
"""`data.train` of a converted model, whose files do not name their training data."""
PREPARED_FACT = Option("--fact prepared=true", "facts={'prepared': True}")
"""The fact that texts are prepared as the program would, as an option of messages."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The files of a model, and facts about it.

    Args:
        path: the model's file or folder.
        files: further files by name, as `AbstractKind.files` describes them.
        facts: by name, as `AbstractKind.facts` describes them.
    """

    path: Path
    files: Mapping[str, Path] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a reader.

    Args:
        model: the model, with its configuration, vocabularies and weights.
        notes: settings that could not be carried over, and differences from the other program; a sentence each, for the
            command line and the model's card.
    """

    model: AbstractModel[Any]
    notes: tuple[str, ...] = ()


class AbstractKind(ABC):
    """A reader of one kind of models of another program.

    It builds the configuration of a task, its vocabularies and its network, and loads the weights by a table of names
    (`regard.interop.named_weights`). Options that the network cannot express are refused by name and value.
    """

    summary: ClassVar[str]
    """The program, its version, and which of its models are read."""
    files: ClassVar[Mapping[str, str]] = {}
    """Descriptions of further files that a model may need, by name."""
    facts: ClassVar[Mapping[str, str]] = {}
    """Descriptions of facts that the files of a model may lack, by name."""

    @abstractmethod
    def read(self, origin: Origin) -> Converted:
        """The model.

        Raises:
            DataError: for files that are missing or damaged, and for weights that are missing, left over or of another
                shape, by their names in the other program.
            UnsupportedError: for an option that cannot be expressed here, by its name and value in the other program.
        """

    def check(self, origin: Origin) -> None:
        """Refuses further files and facts of other names than this kind has.

        Raises:
            ConfigError: for such a name.
        """
        for what, values, known in (("file", origin.files, self.files), ("fact", origin.facts, self.facts)):
            for name in values:
                if name not in known:
                    listed = ", ".join(f"{other} ({text})" for other, text in known.items()) or "none"
                    raise ConfigError(f"--{what} {name}: this kind has no such {what}. It has: {listed}.")
