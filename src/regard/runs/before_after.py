"""The figures of an adapted model on new and former held-out data, before and after."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.config import Config
from regard.config.place import cut_start
from regard.errors import DataError
from regard.files import replace_text
from regard.runs.adapted_data import AdaptedData
from regard.runs.contract import AbstractTask
from regard.runs.former_data import first_file
from regard.training.manifest import Manifest

FIGURES = "adaptation.json"
FORMAT = 1
LONGEST_NAME = 30
"""The most characters of the name of data in the table."""


@dataclass(frozen=True, slots=True)
class HeldOutFigures:
    """The figures on some held-out data.

    Args:
        data: what they are, such as `new: words.tsv, 20 held out`.
        items: how many there are: sentences, tokens, rows or the like.
        before, after: the metrics of validations of the model before and after the adaptation.
    """

    data: str
    items: int
    before: Mapping[str, float | None]
    after: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """The figures on the new held-out data, and on those of each former training that are found."""

    parts: tuple[HeldOutFigures, ...]

    @classmethod
    def measure(cls, task: AbstractTask[Any], model: Any, data: AdaptedData) -> BeforeAfter:
        """The figures of a trained model, and of the model that was adapted."""
        data.base.module.to(model.device)
        every = [("new", model.config, data.material)]
        every += [("former", each.config, material) for each, material in data.former if each.has_dev]
        parts = []
        for kind, config, material in every:
            before, after = (_figures(task, each, material, model.config.select) for each in (data.base, model))
            parts.append(HeldOutFigures(f"{kind}: {_name(config)}", task.sizes(material)[1], before, after))
        return cls(tuple(parts))

    def save(self, folder: Path) -> None:
        """Writes them into a run folder, as JSON."""
        Manifest(folder).claim([FIGURES])
        entry = {"format": FORMAT, "held_out": [asdict(part) for part in self.parts]}
        replace_text(folder / FIGURES, json.dumps(entry, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> BeforeAfter | None:
        """The figures of a run folder; None if it has none."""
        path = folder / FIGURES
        if not path.is_file():
            return None
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))["held_out"]
            return cls(tuple(HeldOutFigures(**entry) for entry in entries))
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{path}: not the figures of an adaptation ({error}); remove the file.") from None

    def __str__(self) -> str:
        """A table with a line for each metric."""
        rows = [("held-out data", "metric", "before", "after", "change")]
        for part in self.parts:
            name = f"{part.data} ({part.items:,})"
            for metric in part.after:
                before, after = part.before.get(metric), part.after[metric]
                change = None if before is None or after is None else after - before
                shown = "" if change is None else f"{change:+.4g}"
                rows.append((name, metric, _number(before), _number(after), shown))
                name = ""
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )


def lacks_figures(config: Config, folder: Path) -> bool:
    """Whether the finished run of an adaptation was stopped before its figures were written."""
    return config.training.replay is not None and not (folder / FIGURES).is_file()


def _figures(task: AbstractTask[Any], model: Any, material: Any, select: str) -> dict[str, float | None]:
    """The metrics that may select a model, that which does first; None for those that are not finite."""
    model.module.eval()
    metrics = task.trainee(model, task.known_to(material, model)).validate().metrics
    names = [metric.name for metric in task.metrics if metric.name in metrics]
    first = task.metric(select)
    ordered = sorted(names, key=lambda name: first is None or name != first.name)
    return {name: float(metrics[name]) if math.isfinite(metrics[name]) else None for name in ordered}


def _name(config: Any) -> str:
    """A short name of the held-out data of a configuration."""
    data = config.data
    file = first_file(data.train if data.dev is None else data.dev)
    return cut_start(Path(getattr(file, "source", file)).name, LONGEST_NAME)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
