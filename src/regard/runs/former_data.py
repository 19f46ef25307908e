"""The data that a saved model was trained on, found by the paths in its configuration and checked by fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.config import Config, load
from regard.config.texts import ParallelFiles, WeightedPairs
from regard.data import collecting
from regard.errors import ConfigError, RegardError
from regard.files import checksum
from regard.runs.automatic_settings import replaced
from regard.runs.contract import AbstractTask, task_of
from regard.runs.fingerprints import fingerprints
from regard.runs.store import CONFIGURATION, WEIGHTS, find_named, load_fingerprints

START = ("training", "start_from")


@dataclass(frozen=True)
class FormerData:
    """The data of a saved model, as far as they are found.

    Args:
        folder: the folder of the model.
        config: the configuration with which they are read.
        has_train, has_dev: whether the training data and the held-out data are found.
        files: the fingerprints of the files that are found, by name.
        notes: what is not found and why.
    """

    folder: Path
    config: Config
    has_train: bool
    has_dev: bool
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def locate(cls, folder: Path, file: Path | None = None) -> list[FormerData]:
        """The data of a model and of the models that it started from, the latest first; nothing is read.

        Args:
            file: training data of the model in another place than that in its configuration, which may be other data.

        Raises:
            ConfigError: for such a file that does not exist.
        """
        config, saved = load(folder / CONFIGURATION).config, load_fingerprints(folder)
        found = [cls._of(folder, config, saved, file)]
        start = config.training.start_from
        if file is None and start is not None and "start_from" in saved:
            try:
                before = find_named(start, START)
                if checksum(before / WEIGHTS) == saved["start_from"]:
                    return [*found, *cls.locate(before, config.training.former)]
            except RegardError:
                pass
            note = f"{start}: {folder} started from this model, which is not there any more"
            found.append(cls(start, config, False, False, notes=(note,)))
        return found

    @classmethod
    def _of(cls, folder: Path, config: Config, saved: Mapping[str, str], file: Path | None) -> FormerData:
        task = task_of(config)
        config = replaced(config, task.learned(config, folder))
        data: Any = config.data
        train, dev, notes = data.train if file is None else file, data.dev, list[str]()
        if getattr(data, "format", "auto") != "auto" and kind_of(train) != kind_of(data.train):
            config = replaced(config, {"data.format": "auto"})
        trained, reason = _checked(task, replaced(config, {"data.train": train, "data.dev": None}), saved, "train")
        if file is not None and not trained:
            raise ConfigError(str(reason), ("training", "former"))
        has_train = reason is None or file is not None
        if reason is not None:
            notes.append(reason if file is None else f"{reason}, so former figures may flatter the model")
        if dev is None:
            config = replaced(config, {"data.train": train})
            return cls(folder, config, has_train, has_train, trained if has_train else {}, tuple(notes))
        held_out, reason = _checked(task, replaced(config, {"data.train": dev}), saved, "dev")
        has_dev = reason is None
        if reason is not None:
            notes.append(reason)
        config = replaced(config, {"data.train": train if has_train else dev, "data.dev": dev if has_dev else train})
        files = {**(trained if has_train else {}), **(held_out if has_dev else {})}
        return cls(folder, config, has_train, has_dev, files, tuple(notes))

    def read(self) -> Any:
        """The task's material; what is not found is not in it, or is there twice.

        Raises:
            DataError: for data that cannot be read.
        """
        with collecting() if self.config.data.on_error == "skip" else nullcontext():
            return task_of(self.config).read(self.config)


def first_file(data: Any) -> Any:
    """The file, or the two parallel ones, that `data.train` or `data.dev` names, or the first of several."""
    first = data[0] if isinstance(data, list | tuple) else data
    if isinstance(first, Mapping):
        return first.get("file", first)
    return first.file if isinstance(first, WeightedPairs) else first


def kind_of(data: Any) -> str:
    """The suffix of a file or of the first of several; `parallel` of parallel files."""
    file = first_file(data)
    return "parallel" if isinstance(file, ParallelFiles | Mapping) else Path(file).suffix


def _checked(
    task: AbstractTask[Any], config: Config, saved: Mapping[str, str], part: str
) -> tuple[dict[str, str], str | None]:
    """The fingerprints of training or held-out files, and a reason if they are not those that were saved."""
    data: Any = config.data
    where = data.train if part == "train" else data.dev
    try:
        every = fingerprints(task.files(config))
    except RegardError as error:
        return {}, str(error).rstrip(".")
    files = {name: value for name, value in every.items() if ("dev" in name.split(".")) == (part == "dev")}
    files = {name: value for name, value in files.items() if not name.endswith((".model", "replacements"))}  # stored
    if wrong := [name for name in files if files[name] != saved.get(name)]:
        kind = "training" if part == "train" else "held-out"
        is_known = wrong[0] in saved
        return files, f"{where}: {f'not the {kind} data of the model' if is_known else 'the model has no record of it'}"
    return files, None
