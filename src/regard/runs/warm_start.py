"""Initial weights from a saved model: those of the same name and shape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.config import Config
from regard.config.place import KeyPath
from regard.config.schema import TrainingConfig, is_set
from regard.data.text.vocabulary import SPECIALS, Vocabulary
from regard.errors import ConfigError, DataError
from regard.files import checksum
from regard.layers import TokenEmbedding, TokenHead
from regard.runs.automatic_settings import AutomaticSettings, adopt, automatic_keys, value_of
from regard.runs.contract import AbstractModel
from regard.runs.fingerprints import training_files
from regard.runs.plan import WARMUP, Plan, planned_steps
from regard.runs.store import WEIGHTS, find_named, load_fingerprints, load_of_task
from regard.runs.trained_items import ITEMS, DataItem, TrainedItems
from regard.training import processes
from regard.training.progress import say

KEY_PATH = ("training", "start_from")
SMALL_SHARE = 0.5
"""New data with at most this share of the items of the former data are a small change."""
STEPS_SHARE, RATE_SHARE, LEAST_VALIDATIONS = 0.25, 0.25, 5
"""The shares of steps and learning rate of a training from scratch for a small change (`docs/log.md`)."""
ADAPTED_STEPS, ADAPTED_RATE = 0.25, 0.5
"""The shares of steps and learning rate of a training from scratch in an adaptation, which replays former items."""
MOST_EPOCHS = 10
"""The most passes of an adaptation over its items, which are only a part of the former ones."""
WRAPPED = ("core", "content")
"""The attributes of the decoder in a pointer, and of the content score in a score with coverage or locations."""
SHOWN = 10
"""The most symbols or weights that a message lists."""

ConfigT = TypeVar("ConfigT", bound=Config)


@dataclass(frozen=True)
class WarmStart:
    """The model that a training starts from.

    Args:
        base: the model; in a continued run, the run's own model, which has the same symbols.
    """

    folder: Path
    base: AbstractModel[Any]

    @classmethod
    def of(cls, config: Config, run: Path | None = None) -> WarmStart | None:
        """The model that a configuration names; None if it names none.

        Args:
            run: the folder of a continued run, whose own model is read if there is one.

        Raises:
            ConfigError: if there is no such model, or it is one of another task.
            DataError: for a damaged model.
        """
        start = config.training.start_from
        if start is None:
            return None
        has_model = processes.first(lambda: run is not None and (run / WEIGHTS).is_file())
        folder = run if run is not None and has_model else find_named(start, KEY_PATH)
        return cls(folder, load_of_task(folder, KEY_PATH, task=config.task, device="cpu"))

    def config(self, config: ConfigT) -> ConfigT:
        """The configuration with the model's sizes, and the units of its texts, where it does not set them."""
        base = self.base.config
        paths = [path for path in automatic_keys(config) if path[0] == "model" or path[-1] == "units"]
        paths = [path for path in paths if _has(base, path)]
        return adopt(config, base, paths)

    def plan(self, plan: Plan[Any], trained: TrainedItems | None) -> Plan[Any]:
        """The plan with fewer automatic steps and a lower automatic learning rate if the data are a small change.

        They are if they have at most half as many items as the model was trained on, or if that number is not known.
        """
        chosen, original = dict(plan.automatic.chosen), plan.automatic.original
        if original.training.replay is not None:
            return self._adapting(plan, chosen)
        notes = [f"start: {self.folder}; sizes of the network that are not set are those of this model"]
        known, training = self.base.trained_items, original.training
        if known is not None and trained is not None and len(trained.hashes) > SMALL_SHARE * len(known.hashes):
            notes.append("start: with that many items, steps and learning rate are those of a training from scratch")
        else:
            _lower(plan, chosen)
            former = self.base.config.training.learning_rate
            if is_set(original, ("training", "learning_rate")) and training.learning_rate >= former:
                notes.append(
                    f"warning: training.learning_rate={training.learning_rate:g} is as high as in the training of "
                    f"{self.folder}, so the model may forget what it has learned. Lower it, or leave it out"
                )
            notes.append(
                "start: held-out figures are about the new data only; to see what the model forgets, evaluate it on "
                "held-out items of the former data"
            )
        settings = AutomaticSettings(original, chosen)
        return replace(plan, automatic=settings, few_steps=0, notes=(*plan.notes, *notes))

    def _adapting(self, plan: Plan[Any], chosen: dict[str, Any]) -> Plan[Any]:
        """The plan of an adaptation: fewer steps than from scratch with as many items, at a low rate."""
        _lower(plan, chosen, steps_share=ADAPTED_STEPS, most_epochs=MOST_EPOCHS)
        if not is_set(plan.automatic.original, ("training", "learning_rate")):
            training = self.base.config.training
            rate = _peak(training) * (1 if training.replay is not None else ADAPTED_RATE)
            chosen["training.learning_rate"] = float(f"{rate:.2g}")
        return replace(plan, automatic=AutomaticSettings(plan.automatic.original, chosen), few_steps=0)

    def begin(self, model: AbstractModel[Any]) -> str:
        """Copies weights into an untrained model, and returns a text about copied and other weights.

        A weight is copied if its name and shape agree, with or without a pointer or coverage around it. Rows that
        belong to symbols or labels are copied by name; those of other names keep their initial values. The model's
        records of training data then include those of the saved model.
        """
        folder, base = self.folder, self.base
        _add_records(model, folder, base.fingerprints, base.trained_items, "start_from")
        named = _named(model, base)
        if model.config.training.replay is not None:
            _check_case(folder, *named.get("labels", ((), ())))
        lines = [_names(side, *names) for side, names in named.items()]
        lines += [f"  {difference}" for difference in model.unlike(base)]
        copied, skipped = _transfer(model, base)
        if not copied:
            raise ConfigError(f"no weight of {folder} fits this model:\n  {_listed(skipped)}", KEY_PATH)
        lines.insert(0, f"  {copied:,} of {copied + len(skipped):,} weights are copied")
        lines += [f"  not copied: {text}" for text in skipped[:SHOWN]]
        if len(skipped) > SHOWN:
            lines.append(f"  not copied: {len(skipped) - SHOWN:,} more")
        return "\n".join([f"Training starts from {folder}:", *lines])


def teachers_of(config: Config) -> list[Path]:
    """The folders of the models that `training.teachers` names.

    Raises:
        ConfigError: for one that is not there.
    """
    return [find_named(path, ("training", "teachers")) for path in getattr(config.training, "taught_by", ())]


def add_records_of_teachers(
    model: AbstractModel[Any], teachers: Sequence[Path], held_out: Callable[[], Iterable[DataItem]]
) -> None:
    """Adds what the teachers of a model were trained on to its records.

    Args:
        teachers: their folders.
        held_out: the held-out items; of those on which a teacher was trained there is a warning.

    Raises:
        DataError: for a teacher that was trained on the held-out data.
    """
    for number, folder in enumerate(teachers):
        items = TrainedItems.load(folder / ITEMS) if (folder / ITEMS).is_file() else None
        _add_records(model, folder, load_fingerprints(folder), items, f"teachers.{number}")
        if items is not None and (seen := str(items.seen(held_out()))):
            say(f"warning: {folder} knows held-out items: {seen}")


def _add_records(
    model: AbstractModel[Any], folder: Path, before: Mapping[str, str], items: TrainedItems | None, name: str
) -> None:
    """Adds what a saved model was trained on to the records of another one, so that no metric is computed on it.

    Args:
        before, items: the records of the saved model.
        name: of the saved model in the fingerprints.
    """
    held_out = {value for each, value in model.fingerprints.items() if each.split(".")[0] == "dev"}
    if held_out & training_files(before):
        raise DataError(
            f"{folder} was trained on data.dev, so metrics on it would be meaningless; hold out other pairs."
        )
    model.fingerprints |= {f"{name}.{each}": value for each, value in before.items()}
    model.fingerprints[name] = checksum(folder / WEIGHTS)
    if model.trained_items is not None:
        model.trained_items |= items


def _lower(
    plan: Plan[Any], chosen: dict[str, Any], *, steps_share: float = STEPS_SHARE, most_epochs: float = math.inf
) -> None:
    """Lowers steps and learning rate, where they are not set, to `steps_share` and `RATE_SHARE` of them."""
    config = plan.config
    if "training.epochs" in chosen:
        chosen["training.epochs"] = max(1, round(min(steps_share * chosen["training.epochs"], most_epochs)))
    training = config.training.model_copy(update={"epochs": chosen.get("training.epochs", config.training.epochs)})
    steps = planned_steps(config.model_copy(update={"training": training}), plan.steps_per_epoch)
    if "training.warmup_steps" in chosen:
        chosen["training.warmup_steps"] = round(WARMUP * steps)
    if "training.validate_every" in chosen:
        chosen["training.validate_every"] = max(1, min(chosen["training.validate_every"], steps // LEAST_VALIDATIONS))
    if config.training.schedule != "noam" and not is_set(plan.automatic.original, ("training", "learning_rate")):
        chosen["training.learning_rate"] = RATE_SHARE * config.training.learning_rate


def _peak(training: TrainingConfig) -> float:
    """The highest learning rate of a training."""
    if training.schedule != "noam" or training.noam_size is None:
        return training.learning_rate
    return float(training.noam_factor * training.noam_size**-0.5 * max(training.warmup_steps, 1) ** -0.5)


def _check_case(folder: Path, labels: Sequence[str], saved: Sequence[str]) -> None:
    """Refuses a new label that differs from one of the saved model only in letter case."""
    known = {label.casefold(): label for label in saved}
    if label := next((label for label in labels if label not in saved and label.casefold() in known), None):
        raise DataError(
            f"The label {label!r} is not new: {folder} has {known[label.casefold()]!r}, which differs from it only in "
            "letter case; write it in the same way."
        )


def _has(config: Config, path: KeyPath) -> bool:
    try:
        value_of(config, path)
    except AttributeError:
        return False
    return True


def _named(model: AbstractModel[Any], base: AbstractModel[Any]) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
    """By side, or `labels`: the names of symbols or labels of the model and of the saved one."""
    saved = base.vocabularies()
    named: dict[str, tuple[Sequence[str], Sequence[str]]] = {
        side: (vocabulary.symbols, saved[side][1].symbols if side in saved else ())
        for side, (_, vocabulary) in model.vocabularies().items()
    }
    rows, saved_rows = model.named_rows(), base.named_rows()
    if rows:
        weight = next(iter(rows))
        named["labels"] = rows[weight], saved_rows.get(weight, ())
    return named


def _names(side: str, names: Sequence[str], saved: Sequence[str]) -> str:
    """A line about symbols or labels: the number of those in the saved model, and those that are new."""
    added, noun = [name for name in names if name not in set(saved)], "" if side == "labels" else " symbols"
    note = f"; new: {_listed(added)}" if added else ""
    return f"  {side}: {len(names) - len(added):,} of {len(names):,}{noun} are known{note}"


@torch.no_grad()
def _transfer(model: AbstractModel[Any], base: AbstractModel[Any]) -> tuple[int, list[str]]:
    """Copies weights; returns the number of copied ones and the reasons for the others."""
    source, symbolic = base.module.state_dict(), _symbolic(model.module)
    named, saved_named = model.named_rows(), base.named_rows()
    names = Counter(map(_unwrapped, source))
    wrapped = {_unwrapped(name): weight for name, weight in source.items() if names[_unwrapped(name)] == 1}
    copied, skipped = 0, []
    for name, weight in model.module.state_dict().items():
        saved = source.get(name, wrapped.get(_unwrapped(name)))
        if saved is None:
            skipped.append(f"{name}: the saved model has none")
        elif name in symbolic and saved.shape[1:] == weight.shape[1:]:
            side = next(side for side, (prefix, _) in model.vocabularies().items() if name.startswith(prefix))
            rows, saved_rows = _rows(model.vocabularies()[side][1], base.vocabularies()[side][1])
            weight[rows] = saved[saved_rows].to(weight.dtype)
            copied += 1
        elif name in named and name in saved_named and saved.shape[1:] == weight.shape[1:]:
            shared = [label for label in named[name] if label in saved_named[name]]
            rows, saved_rows = (
                torch.tensor([list(labels[name]).index(label) for label in shared], dtype=torch.long)
                for labels in (named, saved_named)
            )
            weight[rows] = saved[saved_rows].to(weight.dtype)
            copied += 1
        elif saved.shape == weight.shape:
            weight.copy_(saved)
            copied += 1
        else:
            skipped.append(f"{name}: saved with shape {tuple(saved.shape)}, here {tuple(weight.shape)}")
    return copied, skipped


def _unwrapped(name: str) -> str:
    """The name of a weight without the parts of modules that wrap it.

    >>> _unwrapped("decoder.core.attention.score.content.v")
    'decoder.attention.score.v'
    """
    return ".".join(part for part in name.split(".") if part not in WRAPPED)


def _symbolic(module: nn.Module) -> set[str]:
    """The names of the weights with one row per symbol."""
    names = set()
    for name, part in module.named_modules():
        if isinstance(part, TokenEmbedding):
            names.add(f"{name}.table.weight")
        elif isinstance(part, TokenHead):
            names |= {f"{name}.projection.weight", f"{name}.projection.bias"}
    return names


def _rows(vocabulary: Vocabulary, saved: Vocabulary) -> tuple[Tensor, Tensor]:
    """The ids, in each vocabulary, of the special symbols and of those that are in both."""
    shared = [symbol for symbol in vocabulary.symbols if symbol in saved]
    specials = torch.arange(len(SPECIALS))
    ids, saved_ids = (torch.from_numpy(entry.ids(shared)) for entry in (vocabulary, saved))
    return torch.cat([specials, ids]), torch.cat([specials, saved_ids])


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
    return " ".join(texts[:SHOWN]) + more
