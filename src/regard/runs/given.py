"""Data of Python in the files of a run: written once, listed among the run's files, and named by its configuration."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from regard.config.place import KeyPath
from regard.config.schema import Config, is_set
from regard.data.objects import WrittenData
from regard.errors import OUTPUT_OPTION, ConfigError, DataError
from regard.files import SUFFIX, checksum, clean, writing
from regard.runs.automatic_settings import replaced, value_of
from regard.runs.contract import AbstractModel, task_of
from regard.runs.predictions import Predictions
from regard.training import processes
from regard.training.manifest import Manifest, is_run

ModelT = TypeVar("ModelT", bound=AbstractModel[Any])
ResultT = TypeVar("ResultT")
Params = ParamSpec("Params")
FOLDER = "data"
"""The folder of the data in a run folder."""


def is_named(data: Any) -> bool:
    """Whether data are files, as a configuration names them: a path, parallel files, or a list of files and weights."""
    if isinstance(data, Mapping):
        return bool(data) and all(isinstance(value, str | os.PathLike) for value in data.values())
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(value, os.PathLike) or _has_weight(value) for value in data)
    return isinstance(data, str | os.PathLike)


def _has_weight(part: Any) -> bool:
    """Whether a part of data is a file, or two parallel ones, with a weight, as `{"file": path, "weight": 2.0}`."""
    return isinstance(part, Mapping) and {"file"} <= set(part) <= {"file", "weight"} and is_named(part["file"])


@dataclass(eq=False)
class GivenData:
    """The data of Python of a training, in files of its folder.

    Args:
        folder: the run folder.
        is_new: whether the folder was created for them.
        written: the files, by key of the section `data`.
        created: those that were not there before.
    """

    folder: Path
    is_new: bool = False
    written: dict[str, WrittenData] = field(default_factory=dict)
    created: list[Path] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, Any]:
        """The keys of the configuration that name the files and say how they are read, by dotted key."""
        settings: dict[str, Any] = {}
        for key, each in self.written.items():
            settings |= {f"data.{key}": each.path, **each.settings}
        return settings

    @property
    def names(self) -> list[str]:
        """The names of the files in the folder, as patterns."""
        return [pattern for each in self.written.values() for pattern in _patterns(each.path, self.folder)]

    def located(self, error: DataError) -> DataError:
        """The error with items of the data in place of lines of files that are not kept."""
        return located(error, list(self.written.values()))

    def discard(self) -> None:
        """Removes the created files that do not belong to the run, because no training has begun."""
        kept = {path.absolute() for path in Manifest(self.folder).files()} if is_run(self.folder) else set()
        for path in self.created:
            if path.is_file() and path.absolute() not in kept:
                path.unlink()
            elif path.is_dir() and kept.isdisjoint(file.absolute() for file in path.iterdir()):
                shutil.rmtree(path, ignore_errors=True)
        for folder in (self.folder / FOLDER, *([self.folder] if self.is_new else [])):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


@contextmanager
def given_data(config: Config, folder: Path, data: Mapping[str, Any], *, overwrite: bool) -> Iterator[GivenData]:
    """Writes data into files of a run folder, unless the run has files of the same content.

    If the block raises an error before a run has begun, the files are removed, and places in the error are items.

    Args:
        data: by key of the section `data`.

    Raises:
        ConfigError: for a run in the folder that was trained on other data, unless `overwrite`; for keys that describe
            files of another form.
    """
    given = GivenData(folder)
    if not data:
        yield given
        return
    try:
        given = processes.first(lambda: _write(config, folder, data, overwrite=overwrite))
        for each in given.written.values():
            for key, value in each.keys.items():
                check_form(config, tuple(key.split(".")), value)
        yield given
    except DataError as error:
        raise given.located(error) from None
    finally:
        processes.first(given.discard)


def check_form(config: Config, path: KeyPath, value: Any) -> None:
    """Raises ConfigError for a key that describes files of another form than that of data of Python."""
    if is_set(config, path) and (found := value_of(config, path)) not in (value, "auto", None):
        raise ConfigError(f"{found!r} describes files, and the data are objects of Python; leave the key out", path)


def of_data(
    evaluate: Callable[Concatenate[ModelT, Path | str, Params], ResultT],
) -> Callable[Concatenate[ModelT, Any, Params], ResultT]:
    """Lets a method of a model that reads a file take data of Python, too, as `regard.train` does."""

    @wraps(evaluate)
    def evaluated(model: ModelT, data: Any, *arguments: Params.args, **options: Params.kwargs) -> ResultT:
        if isinstance(data, str | Path):
            return evaluate(model, data, *arguments, **options)
        with temporary_file(model.config, data) as written:
            reader = copy(model)
            reader.config = replaced(model.config, written.keys)
            evaluation = evaluate(reader, written.path, *arguments, **options)
            if (seen := model.seen(evaluation, written.path)) is not None and str(seen):
                warnings.warn(f"{written.name}: {located(DataError(str(seen)), [written])}", stacklevel=2)
            return evaluation

    return cast(Callable[Concatenate[ModelT, Any, Params], ResultT], evaluated)


def of_inputs(
    predict: Callable[Concatenate[ModelT, Any, Params], Sequence[ResultT]],
) -> Callable[Concatenate[ModelT, Any, Params], list[ResultT]]:
    """Lets a method of a model that predicts a list of inputs take them from tables, too; its predictions show
    themselves in notebooks."""

    @wraps(predict)
    def predicted(model: ModelT, inputs: Any, *arguments: Params.args, **options: Params.kwargs) -> list[ResultT]:
        return Predictions(predict(model, model.listed(inputs), *arguments, **options))

    return cast(Callable[Concatenate[ModelT, Any, Params], list[ResultT]], predicted)


@contextmanager
def temporary_file(config: Config, data: Any, name: str = "data") -> Iterator[WrittenData]:
    """Data in a temporary file, for example for an evaluation; places in errors of the block are items."""
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        written = task_of(config).write_data(config, data, Path(folder), name)
        try:
            yield written
        except DataError as error:
            raise located(error, [written]) from None


def located(error: DataError, written: Sequence[WrittenData]) -> DataError:
    """The error with the items of written data in place of lines of their files."""
    text = _text(error)
    for each in written:
        for line in set(re.findall(re.escape(str(each.path)) + r":(\d+)", text)):
            text = re.sub(re.escape(f"{each.path}:{line}") + r"\b", each.place(int(line)), text)
        text = text.replace(str(each.path), each.name)
    return error if text == _text(error) else DataError(text)


def _text(error: DataError) -> str:
    return str(error.args[0]) if error.args else str(error)


def _write(config: Config, folder: Path, data: Mapping[str, Any], *, overwrite: bool) -> GivenData:
    """Writes the data beside their final places, and moves what is new."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; choose a folder ({OUTPUT_OPTION})")
    given, partial = GivenData(folder, not folder.exists()), folder / f".{FOLDER}{SUFFIX}"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        clean(folder)
        # the files of a run that is replaced go with it
        replaces = is_run(folder) and (overwrite or Manifest(folder).clearing)
        try:
            partial.mkdir()
            for key, value in data.items():
                written = task_of(config).write_data(config, value, partial, key)
                top, *rest = written.path.relative_to(partial).parts
                target, is_new = _target(partial / top, folder / FOLDER, reuse=not replaces)
                if is_new:
                    if is_run(folder) and not replaces:
                        raise ConfigError(
                            f"{folder} holds a run with other data ({key}) than these; choose another folder, or begin "
                            "anew (overwrite=True)"
                        )
                    target.parent.mkdir(exist_ok=True)
                    os.replace(partial / top, target)
                    given.created.append(target)
                given.written[key] = replace(written, path=target.joinpath(*rest).absolute())
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            given.discard()
            raise
        shutil.rmtree(partial)
    return given


def _target(new: Path, folder: Path, *, reuse: bool) -> tuple[Path, bool]:
    """The first path, such as `train.jsonl` or `train-2.jsonl`, that is free or, if `reuse`, has the same content; and
    whether it is free."""
    for number in count(1):
        target = folder / (new.name if number == 1 else f"{new.stem}-{number}{new.suffix}")
        if not os.path.lexists(target):
            return target, True
        if reuse and _content(target) == _content(new):
            return target, False
    raise AssertionError


def _content(path: Path) -> dict[str, str]:
    """The checksums of a file, or of the files of a folder, by name; of a link its target."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {
        "" if file == path else str(file.relative_to(path)): os.readlink(file) if file.is_symlink() else checksum(file)
        for file in files
        if file.is_symlink() or file.is_file()
    }


def _patterns(path: Path, folder: Path) -> list[str]:
    """The names, relative to the run folder, of a file, or of a table with the files beside it in a folder."""
    relative = path.relative_to(folder.absolute())
    if len(relative.parts) == 2:
        return [relative.as_posix()]
    others = {file.parent.relative_to(path.parent) for file in path.parent.rglob("*") if file.parent != path.parent}
    return [relative.as_posix(), *((relative.parent / other / "*.*").as_posix() for other in sorted(others))]
