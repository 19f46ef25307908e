"""Errors of the baselines on the user's own series, on the scale on which figures are published.

    python benchmarks/forecasting/baselines.py ETTh1.csv --counts 8640 2880 2880 --horizons 24 48 168

A figure of a model says little without these beside it: repeating the last value, repeating the last season, and a
ridge regression on the past of each column. `--missing 0.2` removes a share of all values first, from a fixed seed;
truth that was removed is not counted.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.series import (
    LinearForecast,
    RepeatLast,
    Seasonal,
    SeriesTable,
    SeriesWindows,
    StandardScale,
    WindowScale,
    read_series,
    split_by_counts,
    split_by_fractions,
)
from regard.metrics import ForecastTally

SEED = 1


def without(table: SeriesTable, share: float) -> SeriesTable:
    """The table with a share of its targets missing."""
    rng = np.random.default_rng(SEED)
    series = []
    for item in table.series:
        missing = rng.random(item.targets.shape) < share
        series.append(replace(item, targets=np.where(missing, np.nan, item.targets)))
    return replace(table, series=tuple(series))


def main() -> None:
    """Prints a row for each horizon and baseline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--counts", type=int, nargs=3, help="rows of training, validation and test; shares .7 .1 .2 if left out"
    )
    parser.add_argument("--horizons", type=int, nargs="+", default=[24, 48, 168])
    parser.add_argument("--history", type=int, default=96)
    parser.add_argument("--penalty", type=float, default=1.0)
    parser.add_argument("--part", choices=["validation", "test"], default="test")
    parser.add_argument("--centre", choices=["none", "last", "mean"], default="none", help="of the windows' own scale")
    parser.add_argument("--missing", type=float, default=0.0)
    options = parser.parse_args()
    table = read_series(options.file)
    if options.missing:
        table = without(table, options.missing)
    split = split_by_counts(table, options.counts) if options.counts else split_by_fractions(table)
    scale, window_scale = StandardScale.fit(table, split), WindowScale(options.centre)
    print(table)
    print(f"{'horizon':>7}  {'windows':>7}  {'baseline':<14}  {'MSE':>7}  {'MAE':>7}  seconds")
    for horizon in options.horizons:
        sizes = {"history": options.history, "horizon": horizon, "split": split}
        train = SeriesWindows(table, part="train", scale=scale, window_scale=window_scale, **sizes)
        test = SeriesWindows(table, part=options.part, scale=scale, window_scale=window_scale, **sizes)
        for name, fit in (
            ("repeat last", RepeatLast.fit),
            ("seasonal", Seasonal.fit),
            ("linear", lambda windows: LinearForecast.fit(windows, penalty=options.penalty)),
        ):
            started = time.perf_counter()
            baseline, tally = fit(train), ForecastTally()
            for batch in test.batches():
                tally.add(batch, baseline.predict(batch))
            errors, seconds = tally.overall(), time.perf_counter() - started
            print(
                f"{horizon:7}  {len(test):7,}  {name:<14}  {errors.mean_squared_error:7.4f}  "
                f"{errors.mean_absolute_error:7.4f}  {seconds:7.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
