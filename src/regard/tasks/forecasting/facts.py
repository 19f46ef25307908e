"""Facts about the training series that a model needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.series import TIME_FEATURES, SeriesTable, Step, TimeSplit
from regard.data.series.zones import DAY, UNNAMED, zone_named
from regard.data.text_file import reason
from regard.errors import DataError
from regard.runs.fingerprints import DAMAGED
from regard.tasks.forecasting.config import SeriesDataConfig
from regard.tasks.forecasting.reading import SeriesData

FORMAT = "regard.series.1"


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """Names, step and calendar of the training series, and the rows that training used.

    Args:
        seen: by the name of a series the beginning and the end of its test part; training used no rows from there on.
        zones: by the name of a series the zone of its calendar, if it has one.
    """

    target_names: tuple[str, ...]
    known_names: tuple[str, ...]
    step: Step
    features: tuple[str, ...]
    seen: Mapping[str, tuple[np.datetime64, np.datetime64]]
    zones: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: SeriesDataConfig, material: SeriesData) -> SeriesFacts:
        """The facts of a training."""
        table = material.table
        features = table.step.features if data.time_features is None else data.time_features
        seen = dict(material.seen)
        for part, split in {table: material.split, material.held_out: material.held_out_split}.items():
            for name, (start, end) in _seen(part, split):
                before = seen.get(name, (start, end))
                seen[name] = max(before[0], start), max(before[1], end)
        zones = {series.name: str(series.clock.zone) for series in table.series if series.clock.zone is not None}
        zones = {name: zone for name, zone in zones.items() if zone != UNNAMED}
        return cls(table.target_names, table.known_names, table.step, tuple(features), seen, zones)

    @property
    def num_known(self) -> int:
        """The number of known inputs, with sine and cosine of the time features."""
        return len(self.known_names) + 2 * len(self.features)

    def save(self, path: Path) -> None:
        """Writes the facts as JSON."""
        content = {
            "format": FORMAT,
            "targets": self.target_names,
            "known": self.known_names,
            "step": asdict(self.step),
            "features": self.features,
            "seen": {name: [str(start), str(end)] for name, (start, end) in self.seen.items()},
            "zones": dict(self.zones),
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
            seen = {
                str(name): (np.datetime64(start, "us"), np.datetime64(end, "us"))
                for name, (start, end) in content["seen"].items()
            }
            names, known, features = (tuple(content[key]) for key in ("targets", "known", "features"))
            zones = {str(name): zone_named(zone).name for name, zone in content.get("zones", {}).items()}
            return cls(names, known, _step(content["step"]), features, seen, zones)
        except OSError as error:
            raise DataError(f"{path}: {reason(path, error)}") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            reasons = f"{type(error).__name__}: {error!s:.99}"
            raise DataError(f"{path}: not the facts of series ({reasons}).\n  {DAMAGED}") from None


def _step(content: Mapping[str, Any]) -> Step:
    """The step that was saved."""
    step = Step(**content)
    types = [type(value) for value in asdict(step).values()]
    lengths = [step.months, step.microseconds, step.number, int(step.rows)]
    if (
        types != [type(value) for value in asdict(Step()).values()]
        or step.counting not in ("", "local", "elapsed")
        or step.month_day not in (0, 29, 30)
        or min(lengths) < 0
        or max(lengths) >= 2**63
        or sum(map(bool, lengths)) != 1
        or (step.business and step.microseconds % DAY)
    ):
        raise ValueError(f"`step` is {content}")
    return step


def _seen(table: SeriesTable, split: TimeSplit) -> Iterator[tuple[str, tuple[np.datetime64, np.datetime64]]]:
    """The name of each series, and the times at which its test part begins and ends."""
    for series, (_, _, start, end) in zip(table.series, split.bounds, strict=True):
        following = table.step.after(series.times, 1, series.clock)
        if np.isnat(following[0]):  # rows are the steps
            following = series.times[-1:] + np.timedelta64(1, "us")
        extended = np.concatenate([series.times, following])
        yield series.name, (extended[start], extended[end])
