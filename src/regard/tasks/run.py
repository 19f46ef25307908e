"""A training from its configuration to its run folder."""

from __future__ import annotations

import difflib
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from regard.config import ABSENT, Config, Configuration, differences
from regard.config import load as load_configuration
from regard.config import save as save_configuration
from regard.config.schema import DataConfig, ParallelFiles
from regard.data import Field, Pairs, open_pairs
from regard.data.checks import check
from regard.data.split import hold_out
from regard.errors import ConfigError, DataError
from regard.tasks.build import build_model
from regard.tasks.evaluation import ALIASES
from regard.tasks.store import load_fingerprints, save_fingerprints
from regard.tasks.teaching import check_teachable
from regard.tasks.text_to_text import TextToText, fingerprint
from regard.tasks.trainee import TextTrainee
from regard.training import Outcome, read_state
from regard.training import train as run_loop

METRICS = ("sequence_error_rate", "symbol_error_rate", "teacher_forced_loss")
FREE = ("training.device", "training.threads", "training.tensorboard", "training.log_every")
"""Keys that may change when a run is continued: they do not change what is learned."""


def train(configuration: Configuration, folder: Path | str, *, overwrite: bool = False) -> Outcome:
    """Trains a model into a run folder, or continues the run that is there.

    The folder gets `config.yaml`, the best model with its vocabularies, `metrics.jsonl`, `pictures/` and the
    checkpoints that a killed run continues from.

    Args:
        configuration: from `regard.config.load` or `from_preset`.
        folder: the run folder. One with the same configuration is continued, or says that it is finished.
        overwrite: a run that is there is deleted first.

    Raises:
        ConfigError: for a folder with another configuration, naming the keys that differ; for a setting that does not
            fit the model.
        DataError: for data that cannot be trained on, or that changed since the run began.
    """
    config, folder = configuration.config, Path(folder)
    try:
        select = _select(config)
        drafted = build_model(config.model, num_source=8, num_target=8)  # mistakes speak before the data is read
        check_teachable(drafted, config.model)
        if config.training.compile:
            from regard.tasks.compilation import check_compilable

            check_compilable(config.training)
        _claim(config, folder, overwrite)
        if (finished := Outcome.read(folder)) is not None:
            why = f"{finished.stop_reason} after {finished.steps:,} steps"
            print(f"{folder}: finished before ({why}).", file=sys.stderr)
            return finished
        torch.manual_seed(config.seed)
        train_pairs, dev_pairs, source, target = read_data(config.data)
        report = check(
            train_pairs,
            dev_pairs,
            source,
            target,
            max_length=config.data.max_length,
            autoencode=config.data.autoencode,
        )
        print(report, file=sys.stderr)
        if report.has_errors:
            raise DataError("The data cannot be trained on; see the errors above.")
        model = TextToText.build(config, source, target, name=folder.name)
        model.fingerprints = fingerprints(config.data)
        _same_data(folder, model.fingerprints)
    except ConfigError as error:
        raise configuration.explain(error) from None
    folder.mkdir(parents=True, exist_ok=True)
    save_configuration(config, folder / "config.yaml")
    save_fingerprints(model, folder)
    trainee = TextTrainee(model, train_pairs, dev_pairs)
    return run_loop(trainee, config.training, folder, seed=config.seed, select=select)


def read_data(data: DataConfig) -> tuple[Pairs, Pairs, Field, Field]:
    """Training pairs, held-out pairs, and the fields of both sides, learned from the training pairs."""
    options: dict[str, Any] = {
        "format": data.format,
        "source_field": data.source_field,
        "target_field": data.target_field,
        "autoencode": data.autoencode,
    }
    pairs = open_pairs(data.train, **options)
    if not len(pairs):
        raise DataError(f"{data.train}: no pairs to train on.")
    if data.dev is not None:
        train_pairs, dev_pairs = pairs, open_pairs(data.dev, **options)
    else:
        train_pairs, dev_pairs = hold_out(pairs, data.dev_fraction)
    source = Field.build(data.source, (pair.source for pair in train_pairs), name="source")
    target = source if data.autoencode and data.source == data.target else None
    if target is None:
        target = Field.build(data.target, (pair.target for pair in train_pairs), name="target")
    return train_pairs, dev_pairs, source, target


def fingerprints(data: DataConfig) -> dict[str, str]:
    """SHA-256 of the training and held-out files, by name."""
    found = {}
    for name, given in (("train", data.train), ("dev", data.dev)):
        files = [given.source, given.target] if isinstance(given, ParallelFiles) else [given] if given else []
        for number, file in enumerate(files):
            found[f"{name}.{number}" if len(files) > 1 else name] = fingerprint(file)
    return found


def _select(config: Config) -> str:
    name = ALIASES.get(config.select, config.select)
    if name not in METRICS:
        known = [*METRICS, *ALIASES]
        near = difflib.get_close_matches(config.select, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        raise ConfigError(f"there is no metric {config.select!r}; {hint}", ("select",))
    return name


def _claim(config: Config, folder: Path, overwrite: bool) -> None:
    """Refuses a folder that is another run's."""
    if not (folder / "config.yaml").exists():
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty and no run folder; choose another one with --output")
        return
    if overwrite:
        _clear(folder)
        return
    before = load_configuration(folder / "config.yaml").config
    changed = [row for row in differences(before, config) if row[0] not in FREE]
    if not changed:
        return
    state = read_state(folder)
    lines = [f"  {key}: {_shown(was)} → {_shown(now)}" for key, was, now in changed]
    where = f" at step {state.step:,}" if state is not None else ""
    raise ConfigError(
        f"{folder} holds a run{where} with another configuration:\n" + "\n".join(lines) + "\n"
        "Continue it with the old configuration, choose another folder (--output), or begin anew (--overwrite)."
    )


def _same_data(folder: Path, found: dict[str, str]) -> None:
    """Refuses to continue a run on files that are not what it began with."""
    before = load_fingerprints(folder)
    if changed := [name for name in before if before[name] != found.get(name)]:
        raise DataError(
            f"{folder} was begun on other data: {', '.join(f'data.{name}' for name in changed)} changed since.\n"
            "Restore it to continue, choose another folder (--output), or begin anew (--overwrite)."
        )


def _clear(folder: Path) -> None:
    """Deletes what runs write, and nothing else."""
    for name in ("checkpoints", "pictures", "tensorboard"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for pattern in ("*.json", "*.jsonl", "*.safetensors", "*.yaml", "*.model", "latest", "best", "card.md"):
        for path in folder.glob(pattern):
            path.unlink()


def _shown(value: object) -> str:
    return "not given" if value is ABSENT else repr(value)
