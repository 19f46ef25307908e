"""What a model has to know of the series that it was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.tasks.forecasting import SeriesDataConfig
from regard.data import TIME_FEATURES, SeriesTable, Step, TimeSplit
from regard.data.text_file import reason
from regard.errors import DataError
from regard.tasks.fingerprints import DAMAGED
from regard.tasks.forecasting.reading import SeriesData

FORMAT = "regard.series.1"


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """Names, step and calendar of the training series, and which of their rows training saw.

    Args:
        target_names, known_names: F and K names.
        step: the time between rows.
        features: the time features.
        seen: by the name of a series the time from which on training saw no row, and the end of its test part.
    """

    target_names: tuple[str, ...]
    known_names: tuple[str, ...]
    step: Step
    features: tuple[str, ...]
    seen: Mapping[str, tuple[np.datetime64, np.datetime64]]

    @classmethod
    def of(cls, data: SeriesDataConfig, material: SeriesData) -> SeriesFacts:
        """The facts of a training."""
        table = material.table
        features = table.step.features if data.time_features is None else data.time_features
        seen = _seen(table, material.split)
        if material.held_out is not table:
            for name, (start, end) in _seen(material.held_out, material.held_out_split).items():
                before = seen.get(name, (start, end))
                seen[name] = max(before[0], start), max(before[1], end)
        return cls(table.target_names, table.known_names, table.step, tuple(features), seen)

    @property
    def num_known(self) -> int:
        """The known inputs with sine and cosine of the time features."""
        return len(self.known_names) + 2 * len(self.features)

    def save(self, path: Path) -> None:
        """Writes the facts as JSON."""
        content = {
            "format": FORMAT,
            "targets": self.target_names,
            "known": self.known_names,
            "step": {
                "months": self.step.months,
                "microseconds": self.step.microseconds,
                "month_end": self.step.month_end,
            },
            "features": self.features,
            "seen": {name: [str(start), str(end)] for name, (start, end) in self.seen.items()},
        }
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> SeriesFacts:
        """The facts that `save` wrote.

        Raises:
            DataError: for any other file.
        """
        try:
            content: Any = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise ValueError("another format")
            for key in ("targets", "known", "features"):
                if not isinstance(content[key], list) or not all(isinstance(name, str) for name in content[key]):
                    raise ValueError(f"`{key}` is not a list of texts")
            if unknown := [name for name in content["features"] if name not in TIME_FEATURES]:
                raise ValueError(f"`features` has {unknown[0]!r}")
            step = content["step"]
            lengths = [step["months"], step["microseconds"]]
            if [type(value) for value in (*lengths, step["month_end"])] != [int, int, bool] or not (
                min(lengths) == 0 and 0 < max(lengths) < 2**63
            ):
                raise ValueError(f"`step` is {step}")
            seen = {
                str(name): (np.datetime64(start, "us"), np.datetime64(end, "us"))
                for name, (start, end) in content["seen"].items()
            }
            names, known, features = (tuple(content[key]) for key in ("targets", "known", "features"))
            return cls(names, known, Step(**step), features, seen)
        except OSError as error:
            raise DataError(f"{path}: {reason(path, error)}") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise DataError(
                f"{path}: not the facts of series ({type(error).__name__}: {error!s:.99}).\n  {DAMAGED}"
            ) from None


def _seen(table: SeriesTable, split: TimeSplit) -> dict[str, tuple[np.datetime64, np.datetime64]]:
    """For each series the times at which its test part begins and ends."""
    times = {}
    for series, (_, _, start, end) in zip(table.series, split.bounds, strict=True):
        extended = np.concatenate([series.times, table.step.after(series.times[-1], 1)])
        times[series.name] = extended[start], extended[end]
    return times
