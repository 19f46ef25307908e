"""Invertible scales, from the training rows of each series and from the history of each window."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from regard.data.series.series import SeriesTable, Values
from regard.data.series.split import TimeSplit
from regard.data.text_file import reason
from regard.errors import DataError, first_of

FORMAT = "regard.scale.1"
LARGEST = float(np.finfo(np.float32).max)
"""The largest number of a scale, as networks read float32."""
Centre = Literal["last", "mean", "none"]


@dataclass(frozen=True, eq=False)
class StandardScale:
    """A scale that gives each target and known input of each series mean 0 and deviation 1 over the training rows.

    A value x becomes (x − m) / d, with the mean m and the population deviation d of the observed training rows; d is 1
    for a constant.

    Args:
        names: the S series.
        mean, deviation: (S, F), of the targets.
        known_mean, known_deviation: (S, K), of the known inputs.

    >>> from regard.data.series.calendar import Step
    >>> table = SeriesTable.of({"a": [1.0, 3.0, np.nan, 900.0]}, "2024-01-01", Step(months=1))
    >>> scale = StandardScale.fit(table, TimeSplit(((0, 3, 3, 4),)))
    >>> scale.mean.tolist(), scale.deviation.tolist()
    ([[2.0]], [[1.0]])
    """

    names: tuple[str, ...]
    mean: Values
    deviation: Values
    known_mean: Values
    known_deviation: Values

    @classmethod
    def fit(cls, table: SeriesTable, split: TimeSplit | None = None) -> StandardScale:
        """The scale of the training rows, or of all rows without a split.

        Raises:
            DataError: for a target without an observed training row.
        """
        moments = []
        for index, series in enumerate(table.series):
            rows = range(series.end) if split is None else split.rows(index, "train")
            targets = series.targets[rows.start : rows.stop]
            empty = np.isnan(targets).all(axis=0)
            if empty.any():
                name = table.target_names[int(empty.argmax())]
                raise DataError(
                    f"Target {name!r} of series {series.name!r} has no value in its {len(rows):,} training rows."
                )
            moments.append((*_moments(targets), *_moments(series.known[rows.start : rows.stop])))
        return cls(table.names, *(np.stack(parts) for parts in zip(*moments, strict=True)))

    def of(self, names: Sequence[str]) -> StandardScale:
        """The scale of some series, in this order.

        Raises:
            DataError: for a series that is not in the scale.
        """
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise DataError(
                f"The scale was not fitted on the series {unknown[0]!r}; its {len(self.names):,} series are "
                f"{first_of(list(map(repr, self.names)), 5)}."
            )
        at = [self.names.index(name) for name in names]
        return StandardScale(
            tuple(names), self.mean[at], self.deviation[at], self.known_mean[at], self.known_deviation[at]
        )

    def extended(self, other: StandardScale) -> StandardScale:
        """This scale, followed by the series of another one that it lacks."""
        names = [name for name in other.names if name not in self.names]
        if not names:
            return self
        further = other.of(names)
        arrays = (np.concatenate([getattr(self, name), getattr(further, name)]) for name in _ARRAYS)
        return StandardScale((*self.names, *names), *arrays)

    def save(self, path: Path | str) -> None:
        """Writes the scale as JSON with exact numbers."""
        content = {name: getattr(self, name).tolist() for name in _ARRAYS}
        text = json.dumps({"format": FORMAT, "names": self.names, **content}, indent=1, ensure_ascii=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> StandardScale:
        """Reads a file of `save`.

        Raises:
            DataError: for any other file.
        """
        path = Path(path)
        try:
            content: Any = json.loads(path.read_text(encoding="utf-8"))
            names = content["names"]
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError("`names` is not a list of texts")
            arrays = [np.array(content[name], np.float64).reshape(len(names), -1) for name in _ARRAYS]
            if content["format"] != FORMAT or arrays[0].shape != arrays[1].shape or arrays[2].shape != arrays[3].shape:
                raise ValueError("another format, or lists of different lengths")
            for key, array in zip(_ARRAYS, arrays, strict=True):
                wrong = ~(np.abs(array) <= LARGEST) | (key.endswith("deviation") & (array <= 0))
                if wrong.any():
                    raise ValueError(f"`{key}` has {array[wrong][0]}")
        except OSError as error:
            raise DataError(f"{path}: {reason(path, error)}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not a file of StandardScale ({type(error).__name__}: {error!s:.99}).") from None
        return cls(tuple(names), *arrays)


_ARRAYS = ("mean", "deviation", "known_mean", "known_deviation")


@dataclass(frozen=True, slots=True)
class WindowScale:
    """A scale for each window from the observed values of its history, for series whose level drifts.

    A value x becomes (x − c) / d with the centre c, the last observed value or the mean of the history, and the
    deviation d of the history if `divide`, else 1.

    Args:
        smallest: the smallest deviation.

    Source: Kim et al. 2022, "Reversible instance normalization" (mean and deviation, without their affine map); Zeng et
    al. 2023, "Are Transformers effective for time series forecasting?" (NLinear: the last value).

    >>> WindowScale("last").of(np.array([[[4.0], [7.0], [np.nan]]]))
    (array([[7.]]), array([[1.]]))
    """

    centre: Centre = "last"
    divide: bool = False
    smallest: float = 1e-2

    def __post_init__(self) -> None:
        if self.centre not in get_args(Centre):
            raise DataError(f"centre is one of {', '.join(get_args(Centre))}; got {self.centre!r}.")

    def of(self, values: Values) -> tuple[Values, Values]:
        """Centre and deviation (B, F) of histories (B, S, F) with NaN where missing or padded."""
        observed = ~np.isnan(values)
        filled = np.where(observed, values, 0.0)
        count = np.maximum(observed.sum(axis=1), 1)
        mean = filled.sum(axis=1) / count
        centre = np.zeros_like(mean)
        if self.centre == "mean":
            centre = mean
        elif self.centre == "last":
            last = values.shape[1] - 1 - observed[:, ::-1].argmax(axis=1)
            centre = np.take_along_axis(filled, last[:, None], axis=1)[:, 0]
        if not self.divide:
            return centre, np.ones_like(centre)
        squares = np.where(observed, (values - mean[:, None]) ** 2, 0.0).sum(axis=1) / count
        deviation = np.maximum(np.sqrt(squares), self.smallest)
        return centre, np.where(observed.any(axis=1), deviation, 1.0)


def _moments(values: Values) -> tuple[Values, Values]:
    """Mean and deviation (F,) of the observed values (N, F); 0 and 1 if there are none."""
    observed = ~np.isnan(values)
    count = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, values, 0.0).sum(axis=0) / count
    deviation = np.sqrt(np.where(observed, (values - mean) ** 2, 0.0).sum(axis=0) / count)
    return mean, np.where(deviation > 1e-12 * (1 + np.abs(mean)), deviation, 1.0)
