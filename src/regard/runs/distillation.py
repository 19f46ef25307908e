"""Distilling: one model learns what an ensemble of others says."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any

from regard.config import Config, dump, from_values, load
from regard.config.document import parse
from regard.config.reading import Settings
from regard.data.cache import CacheEntry
from regard.data.lines import Lines
from regard.data.objects import record_of
from regard.errors import ConfigError, DataError, counted
from regard.files import checksum
from regard.runs.adaptation import absolute, set_keys
from regard.runs.contract import AbstractTask, task_of
from regard.runs.given import FOLDER, is_named, temporary_file
from regard.runs.run import TrainingRun
from regard.runs.store import CONFIGURATION, WEIGHTS, find, load_of_task
from regard.runs.training import AnyConfiguration, configured, train
from regard.training import processes
from regard.training.device import choose
from regard.training.progress import quiet as silenced
from regard.training.progress import say
from regard.training.report import Callback

NOT_COPIED = tuple(
    f"training.{name}"
    for name in (
        *("epochs", "max_steps", "batch_tokens", "warmup_steps", "validate_every"),  # follow from the student's data
        *("start_from", "replay", "former", "device", "threads", "sharding"),
    )
)
"""The keys of the first teacher's configuration that are not those of its student."""


def distill(
    teachers: Sequence[Path | str],
    data: Any,
    folder: Path | str,
    *,
    dev: Any = None,
    inputs: Path | str | Sequence[str] | None = None,
    student: AnyConfiguration | None = None,
    relabel: bool = True,
    search: Mapping[str, Any] | None = None,
    overrides: Settings = (),
    callback: Callback | None = None,
    quiet: bool = False,
    overwrite: bool = False,
) -> TrainingRun:
    """Trains one model on what several say, in a run folder of its own; or continues such a run.

    The student learns the right outputs and, at every symbol of them, the mean of the probabilities of the teachers
    (`training.teachers`, `training.teacher_weight`). It learns the outputs that the teachers predict together, too: of
    the inputs of the data, unless they are right, and of further inputs, whose outputs nobody has to know.

    Args:
        teachers: run folders, or names of shipped models, with the same symbols.
        data: a file like those that the teachers were trained on, `{"source": path, "target": path}` of parallel files,
            or data of Python as `train` takes them.
        folder: the run folder, as for `train`.
        dev: held-out data; None: the share of `data` that the configuration holds out.
        inputs: a file with an input on each line, or texts.
        student: a configuration as `train` takes it; if None, that of the first teacher, except that the sizes of
            batches and the number of steps follow from the student's data.
        relabel: whether outputs that teachers predict for inputs of the data are learned.
        search: keys of `decoding` with which teachers predict, such as `{"reranker": path}`; the rest is that of the
            first teacher.
        overrides: further keys of the configuration, as texts `section.key=value`, or as a mapping of Python.
        callback, quiet, overwrite: as for `train`.

    Raises:
        ConfigError: for models of other tasks, models that cannot predict together, or a folder with another run.
        DataError: for data that cannot be trained on.

    Source: Kim & Rush 2016 (arXiv 1606.07947); with further inputs: Sun et al. 2019 (arXiv 1904.03446).
    """
    folders = [find(teacher).absolute() for teacher in teachers]
    if not folders:
        raise ConfigError("Name one teacher or more: run folders, or names of shipped models.")
    config = load(folders[0] / CONFIGURATION).config
    task = task_of(config)
    if not hasattr(config.training, "taught_by"):
        raise ConfigError(f"{folders[0]} is a model of {config.task}; only models of text_to_text are distilled.")
    if getattr(config.data, "autoencode", False):
        raise ConfigError(f"{folders[0]} is an autoencoder, whose outputs are known; it teaches nothing.")
    with silenced(quiet):
        values = _values(student, config, folders[0])
        train_rows, dev_rows = _rows(task, values, data, dev)
        known, right = dict.fromkeys(row[:-1] for row in train_rows), set(train_rows)
        texts, others = list(known) if relabel else [], known.keys() | {row[:-1] for row in dev_rows}
        texts += [row for row in dict.fromkeys([] if inputs is None else _inputs(inputs)) if row not in others]
        if texts:
            taught = processes.first(lambda: _outputs(folders, config, texts, dict(search or {})))
            new = [(*row, text) for row, text in zip(texts, taught, strict=True) if text]
            new = [row for row in new if row not in right]
            pairs, outputs = counted(len(train_rows), "pair|pairs"), counted(len(new), "further output|outputs")
            say(f"distill: {pairs} of the data; {outputs} of the teachers for {counted(len(texts), 'input|inputs')}")
            train_rows += new
        changed = {"data.train": FOLDER, "data.dev": FOLDER, "data.dev_fraction": ..., "data.format": ...}
        changed |= {"training.teachers": [str(each) for each in folders], **task.learned(config, folders[0])}
        values.setdefault("training", {})  # which a preset may leave out
        set_keys(values, changed)
        chosen = from_values(values, overrides)
        data_config: Any = chosen.config.data
        fields = data_config.source_field
        fields = (*(fields if isinstance(fields, tuple) else (fields,)), data_config.target_field)
        placed, held_out = ([_record(fields, row) for row in rows] for rows in (train_rows, dev_rows))
    return train(chosen, folder, train=placed, dev=held_out, callback=callback, quiet=quiet, overwrite=overwrite)


def _values(student: AnyConfiguration | None, config: Config, teacher: Path) -> dict[str, Any]:
    """The configuration of the student as nested dicts: the given one, or that of a teacher."""
    if student is None:
        values = parse(dump(config), origin="", folder=teacher, lines=False).values
        set_keys(values, dict.fromkeys(NOT_COPIED, ...))
        return values
    begun = configured(student, {"data.train": FOLDER}).config
    if begun.task != config.task:
        raise ConfigError(f"The student is a model of {begun.task}, and its teachers of {config.task}.")
    return {"task": config.task, **begun.model_dump(exclude_unset=True)}


def _rows(
    task: AbstractTask[Any], values: dict[str, Any], data: Any, dev: Any
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The training and the held-out pairs: the columns of each input, and its output.

    Args:
        values: the configuration of the student, which names held-out data if `dev` does not.
    """
    reading: dict[str, Any] = deepcopy(values)
    with ExitStack() as files:
        for name, given in (("train", data), ("dev", dev)):
            if given is None:
                continue
            changed: dict[str, Any] = {"data.dev_fraction": ...} if name == "dev" else {}
            if not is_named(given):
                written = files.enter_context(temporary_file(from_values(values).config, given, name))
                given, changed = written.path, changed | written.keys
            set_keys(reading, changed | {f"data.{name}": absolute(given)})
        material = task.read(from_values(reading).config)
        parts = [[(*pair.source.split("\t"), pair.target) for pair in part] for part in (material.train, material.dev)]
    if material.mixture is not None:
        raise ConfigError("weights and temperatures of files are not kept in a distillation; join the files first")
    train, held_out = parts
    return train, held_out


def _inputs(inputs: Path | str | Sequence[str]) -> list[tuple[str, ...]]:
    """Further inputs: lines of a file, or texts; columns are separated by tabs."""
    if isinstance(inputs, str | Path):
        lines = [line for line in Lines(Path(inputs)) if line.strip()]
        if not lines:
            raise DataError(f"{inputs}: the file has no inputs.")
        inputs = lines
    return [tuple(text.split("\t")) for text in inputs]


def _outputs(
    folders: Sequence[Path], config: Config, inputs: Sequence[tuple[str, ...]], search: dict[str, Any]
) -> list[str]:
    """What the teachers predict together; from the cache if they have predicted it before."""
    decoding: Any = config.decoding
    chosen = decoding.replace(
        **{"ensemble": tuple(folders[1:]), "ensemble_weights": None, "ensemble_alignment": None, **search}
    )
    digest = hashlib.sha256(repr((chosen.model_dump(mode="json"), inputs)).encode())
    others = [] if chosen.reranker is None else [find(chosen.reranker)]
    for folder in [*folders, *others]:
        digest.update(checksum(folder / WEIGHTS).encode())
    key = f"outputs-{digest.hexdigest()[:32]}"

    def write(_: Path) -> dict[str, Any]:
        say(f"distill: {' + '.join(folder.name for folder in folders)}: {len(inputs):,} inputs are predicted")
        model = load_of_task(folders[0], ("training", "teachers"), task=config.task, device=choose("auto"))
        predicted = model.predict(["\t".join(row) for row in inputs], search=chosen, alignment=False)
        return {"outputs": [each.text for each in predicted]}

    entry = CacheEntry.find(key) or CacheEntry.write(key, write)
    if entry is None:
        raise DataError(f"{key}: the outputs of the teachers could not be stored in the cache.")
    outputs: list[str] = entry.contents["outputs"]
    return outputs


def _record(fields: Sequence[str | int], row: Sequence[str]) -> Sequence[str]:
    """A row of Python: with its values in numbered columns, or in the order of named ones."""
    numbered: Sequence[str] = row if any(isinstance(field, str) for field in fields) else record_of(fields, row)
    return numbered
