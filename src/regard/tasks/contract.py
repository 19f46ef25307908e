"""What a task is: all that run folders, the training loop, the command line and pictures ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import nn

from regard.config import Config
from regard.data import Vocabulary
from regard.training import Trainee


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of validations that may select the saved model.

    Args:
        name: as it is logged.
        aliases: other names that `select` may have.
        larger_is_better: whether the largest value is the best, not the smallest.
        package, extra: the package without which it cannot be computed, and the extra that has it.
    """

    name: str
    aliases: tuple[str, ...] = ()
    larger_is_better: bool = False
    package: str | None = None
    extra: str | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a configuration names.

    Args:
        key: the key of the configuration.
        name: what its fingerprint is called; names that begin with `train` are files that may not be evaluated.
        path: the file.
    """

    key: str
    name: str
    path: Path


class Report(Protocol):
    """What a check of the data found; `str` shows it."""

    @property
    def has_errors(self) -> bool:
        """Whether a model cannot be trained on the data."""
        ...


class Resolved(Protocol):
    """A configuration in which no key is open; `str` shows the plan of the training."""

    @property
    def config(self) -> Any:
        """The configuration."""
        ...


class TaskTrainee(Trainee, Protocol):
    """A trainee that can show what to predict."""

    @property
    def examples(self) -> Iterable[str]:
        """Held-out inputs, as they are given to `regard predict`."""
        ...


ConfigT = TypeVar("ConfigT", bound=Config)


class AbstractModel(ABC, Generic[ConfigT]):
    """A trained model with everything that prediction needs."""

    config: ConfigT
    module: nn.Module
    name: str
    card: str
    fingerprints: dict[str, str]
    assets: ClassVar[tuple[str, ...]]
    """The names of the files that `save_assets` may write; their checksums are saved with the weights."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.module.parameters()).device

    @abstractmethod
    def save_assets(self, folder: Path) -> None:
        """Writes what belongs to the model beside weights and configuration, such as vocabularies; no code."""

    @abstractmethod
    def information(self) -> dict[str, Any]:
        """Facts about the model: sizes, vocabularies, configuration."""

    @abstractmethod
    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        """The vocabularies by name, each with the beginning of the names of the weights with a row for each symbol."""

    def unlike(self, other: Any) -> Sequence[str]:
        """What a model that starts from the weights of another one does otherwise: a line each."""
        return ()


class AbstractTask(ABC, Generic[ConfigT]):
    """A task: how its data are read and checked, its model, and its training. It has no state."""

    summary: ClassVar[str]
    """What the task is, in a line."""
    metrics: ClassVar[tuple[Metric, ...]]
    """The metrics of validations, for `select`."""

    @abstractmethod
    def draft(self, config: ConfigT) -> nn.Module:
        """A module as the configuration describes it, before the data are read.

        Raises:
            ConfigError: for what the model does not allow; its path names the key.
        """

    @abstractmethod
    def files(self, config: ConfigT) -> Sequence[DataFile]:
        """The files that the configuration names and that are there; their fingerprints are saved."""

    @abstractmethod
    def read(self, config: ConfigT) -> Any:
        """The material: the data, and what is learned from them, such as vocabularies."""

    @abstractmethod
    def check(self, config: ConfigT, material: Any) -> Report:
        """Checks the data."""

    @abstractmethod
    def resolve(self, config: ConfigT, material: Any, report: Any) -> Resolved:
        """The configuration with values for the keys that it leaves open."""

    @abstractmethod
    def adopt(self, config: ConfigT, resolved: ConfigT) -> ConfigT:
        """A configuration whose open keys have the values that a former run resolved them to."""

    @abstractmethod
    def build(self, config: ConfigT, material: Any, *, name: str) -> AbstractModel[ConfigT]:
        """An untrained model; its weights are drawn from torch's global generator."""

    @abstractmethod
    def trainee(self, model: Any, material: Any) -> TaskTrainee:
        """The model with its data, for the training loop."""

    @abstractmethod
    def restore(self, config: ConfigT, folder: Path, *, name: str) -> AbstractModel[ConfigT]:
        """The model from what `save_assets` wrote; its weights come afterwards."""
