"""The data of an adaptation: those of a new file, with some of those that the model was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.config import Config
from regard.errors import ConfigError, DataError, Option, counted
from regard.runs.contract import AbstractTask
from regard.runs.fingerprints import fingerprints, training_files
from regard.runs.former_data import START, FormerData
from regard.runs.store import find_named, load_of_task

FEW_HELD_OUT = 20
"""Fewer held-out new items say little about an adaptation."""


@dataclass(frozen=True, eq=False)
class AdaptedData:
    """The new data and the former ones.

    Args:
        base: the model that is adapted, as it was before.
        material: the new data, with the symbols, labels and scales of the model.
        former: the data that the model was trained on, each with its material, as far as they are found.
    """

    base: Any
    material: Any
    former: tuple[tuple[FormerData, Any], ...]

    @classmethod
    def of(cls, task: AbstractTask[Any], config: Config, material: Any) -> AdaptedData:
        """The data of a configuration with `training.replay`.

        Args:
            material: the new data, as they are read.

        Raises:
            ConfigError: if former data are to be replayed, but are not found; if the model is not there.
            DataError: for a file without anything new.
        """
        start, training = config.training.start_from, config.training
        assert start is not None
        folder = find_named(start, START)
        base = load_of_task(folder, START, task=config.task, device="cpu")
        data: Any = config.data
        files, trained = fingerprints(task.files(config)), training_files(base.fingerprints)
        if all(value in trained for name, value in files.items() if name.split(".")[0] == "train"):
            raise DataError(f"{data.train}: there is nothing new in it: {folder} was trained on this file.")
        material = task.new_part(task.continued(config, material, base), base, str(data.train))
        located = FormerData.locate(folder, training.former)
        if training.replay and not any(each.has_train for each in located):
            notes = "; ".join(note for each in located for note in each.notes)
            raise ConfigError(
                f"training data of {folder} are not found ({notes}); name them in training.former, or set replay: 0",
                ("training", "replay"),
            )
        found = [each for each in located if each.has_train or each.has_dev]
        return cls(base, material, tuple((each, each.read()) for each in found))

    def joined(self, task: AbstractTask[Any], config: Config) -> Any:
        """The material of the training: `training.replay` former items for each new one, from each model's data alike.

        Held-out items are joined in the same proportion, and at least as many as there are new ones, so that the
        selected weights are good for both.
        """
        material, replay = self.material, config.training.replay or 0.0
        wanted = [replay * task.sizes(material)[0], max(replay, 1.0) * task.sizes(material)[1]]
        has = [(former.has_train, former.has_dev) for former, _ in self.former]
        for (_, others), found in zip(self.former, has, strict=True):
            train, dev = (
                min(1.0, wanted[part] / sum(each[part] for each in has) / max(task.sizes(others)[part], 1))
                if found[part]
                else 0.0
                for part in (0, 1)
            )
            material = task.joined(material, others, train=train, dev=dev, seed=config.seed)
        return material

    def note(self, task: AbstractTask[Any], material: Any) -> str:
        """A line about the data of the training, and lines about former data that are not found.

        Args:
            material: the result of `joined`.
        """
        (new, held_out), (every, _) = task.sizes(self.material), task.sizes(material)
        lines = [f"adapt: {new:,} new training items and {every - new:,} former ones"]
        if held_out < FEW_HELD_OUT:
            shares = hasattr(self.base.config.data, "dev_fraction")
            lines.append(
                f"  only {counted(held_out, 'new item|items is|are')} held out, which says little about the new data: "
                f"{Option('--dev FILE', 'dev')} names others" + "; a larger data.dev_fraction holds out more" * shares
            )
        lines += [f"  former data: {note}" for former, _ in self.former for note in former.notes]
        return "\n".join(lines)

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """The fingerprints of the former files, by name."""
        return {
            f"former.{number}.{name}": value
            for number, (former, _) in enumerate(self.former)
            for name, value in former.files.items()
        }
