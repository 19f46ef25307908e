"""Adapting a model: a short training on a new file, from a model that keeps what it knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from regard.config import Config, Configuration, dump, from_values, load
from regard.config.document import parse
from regard.config.reading import Settings
from regard.config.texts import ParallelFiles
from regard.errors import ConfigError, Option
from regard.runs.contract import AbstractModel, task_of
from regard.runs.former_data import FormerData, kind_of
from regard.runs.given import FOLDER, is_named, temporary_file
from regard.runs.run import TrainingRun
from regard.runs.store import CONFIGURATION, find
from regard.runs.training import train
from regard.training.progress import quiet as silenced
from regard.training.progress import say
from regard.training.report import Callback

REPLAY = 8.0
"""The former training items for each new one, if they are found."""
LEFT_OUT = (
    "data.dev",
    "data.dev_fraction",
    *(
        f"training.{name}"
        for name in (
            *("epochs", "max_steps", "start_from", "replay", "former", "learning_rate", "schedule", "noam_factor"),
            *("noam_size", "warmup_steps", "plateau_factor", "plateau_patience", "min_learning_rate"),
            *("validate_every", "early_stopping", "allow_trained_dev", "scheduled_sampling_start"),
            *("scheduled_sampling_warmup", "scheduled_sampling_schedule", "device", "threads", "sharding"),
            *("keep_checkpoints", "tensorboard", "log_every", "save_every_minutes", "teachers", "teacher_weight"),
        )
    ),
)
"""The keys of the model's configuration that are not those of its adaptation."""


def adapt(
    model: AbstractModel[Any] | Path | str,
    data: Any,
    folder: Path | str,
    *,
    dev: Any = None,
    replay: float = REPLAY,
    former: Path | str | None = None,
    overrides: Settings = (),
    callback: Callback | None = None,
    quiet: bool = False,
    overwrite: bool = False,
) -> TrainingRun:
    """Trains a model further on new data, in a run folder of its own; or continues such a run.

    The model keeps its symbols, labels and scales, to which those of the new data are added, and its configuration.
    Some of the data that it was trained on are trained on again, so that it does not forget them. Learning rate and
    steps are low, and follow from the number of items. At the end the figures on new and former held-out data, before
    and after, are printed, and written to `adaptation.json`.

    Args:
        model: a model that `load` has read, its folder, or the name of a shipped model.
        data: a file like those that the model was trained on, `{"source": path, "target": path}` of parallel files, or
            data of Python as `train` takes them.
        folder: the run folder, as for `train`.
        dev: held-out new data; None: a part of `data`.
        replay: the former training items for each new one; 0: none.
        former: a file of the former training data, if they are not where the configuration of the model has them; of
            parallel files, a table of their lines.
        overrides: further keys of the configuration, as texts `section.key=value`, or as a mapping of Python.
        callback, quiet, overwrite: as for `train`.

    Raises:
        ConfigError: for data of another kind, a setting that does not fit, or a folder with another run.
        DataError: for data that cannot be trained on, or without anything new.
    """
    base = model.folder if isinstance(model, AbstractModel) else find(model)
    if base is None:
        raise ConfigError(f"{model!r} was not loaded from a folder; save it first, and load it (regard.load).")
    base = base.absolute()
    if not replay and former is not None:
        raise ConfigError("former names data to replay, and replay is 0; leave out one of them.")
    located = FormerData.locate(base, None if former is None else Path(former).absolute())
    with silenced(quiet):
        for note in (note for each in located if not (each.has_train or each.has_dev) for note in each.notes):
            say(f"adapt: former data: {note}")
        if replay and not any(each.has_train for each in located):
            say(
                "warning: none of the former training data are found, so none are trained on again, and the model "
                f"may forget. {Option('--former FILE', 'former=path')} names them"
            )
            replay = 0.0
        if not any(each.has_dev for each in located):
            say("warning: no former held-out data are found, so nothing shows what the model forgets")
    objects = {name: value for name, value in (("train", data), ("dev", dev)) if not (value is None or is_named(value))}
    configuration = _configuration(base, data, dev, replay, former, overrides)
    return train(configuration, folder, **objects, callback=callback, quiet=quiet, overwrite=overwrite)


def _configuration(
    base: Path,
    data: Any,
    dev: Any,
    replay: float,
    former: Path | str | None,
    overrides: Settings,
) -> Configuration:
    """The configuration of the model with the new data, without what follows from the data."""
    config = load(base / CONFIGURATION).config
    task = task_of(config)
    values: dict[str, Any] = parse(dump(config), origin="", folder=base, lines=False).values
    changed: dict[str, Any] = {**dict.fromkeys(LEFT_OUT, ...), **task.adapted(config), **task.learned(config, base)}
    before: Any = config.data.train  # type: ignore[attr-defined]
    for name, value in (("train", data), ("dev", dev)):
        if value is None:
            continue
        if not is_named(value):  # `train` writes them
            with temporary_file(config, value, name) as written:
                changed |= {**dict.fromkeys(written.form, ...), f"data.{name}": FOLDER}
            continue
        if isinstance(value, Mapping) and not _has_parallel_files(config):
            raise ConfigError(f"models of {config.task} are not trained on parallel files; give one file")
        if getattr(config.data, "format", "auto") != "auto" and kind_of(before) != kind_of(value):
            changed["data.format"] = ...
        changed[f"data.{name}"] = absolute(value)
    changed |= {"training.start_from": str(base), "training.replay": replay}
    if former is not None:
        changed["training.former"] = str(Path(former).absolute())
    set_keys(values, changed)
    return from_values(values, overrides)


def _has_parallel_files(config: Config) -> bool:
    """Whether models of the task may be trained on parallel files."""
    data: Any = config.data
    return ParallelFiles in get_args(type(data).model_fields["train"].annotation)


def absolute(data: Any) -> Any:
    """Data that `is_named`, with absolute paths as texts; the weights of files are kept."""
    if isinstance(data, int | float):
        return data
    if isinstance(data, Mapping):
        return {side: absolute(path) for side, path in data.items()}
    if isinstance(data, list | tuple):
        return [absolute(path) for path in data]
    return str(Path(data).absolute())


def set_keys(values: dict[str, Any], changed: Mapping[str, Any]) -> None:
    """Sets dotted keys of nested dicts where their sections are there, or removes those whose value is an ellipsis."""
    for key, value in changed.items():
        *names, name = key.split(".")
        section: Any = values
        for each in names:
            section = section.get(each) if isinstance(section, dict) else None
        if not isinstance(section, dict):
            continue
        if value is ...:
            section.pop(name, None)
        else:
            section[name] = str(value) if isinstance(value, Path) else value
