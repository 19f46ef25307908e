"""Time series: reading, calendar, scales, windows, forecasts and baselines."""

from regard.data.series.baselines import AbstractBaseline, LinearForecast, RepeatLast, Seasonal
from regard.data.series.calendar import TIME_FEATURES, Step, find_step, time_features
from regard.data.series.file import read_series
from regard.data.series.forecasts import Forecast, alignment_rows, forecast_rows, forecasts_of, write_rows
from regard.data.series.scaling import StandardScale, WindowScale
from regard.data.series.series import Series, SeriesTable
from regard.data.series.split import TimeSplit, rolling_splits, split_by_counts, split_by_dates, split_by_fractions
from regard.data.series.windows import SeriesBatch, SeriesWindows

__all__ = [
    "TIME_FEATURES",
    "AbstractBaseline",
    "Forecast",
    "LinearForecast",
    "RepeatLast",
    "Seasonal",
    "Series",
    "SeriesBatch",
    "SeriesTable",
    "SeriesWindows",
    "StandardScale",
    "Step",
    "TimeSplit",
    "WindowScale",
    "alignment_rows",
    "find_step",
    "forecast_rows",
    "forecasts_of",
    "read_series",
    "rolling_splits",
    "split_by_counts",
    "split_by_dates",
    "split_by_fractions",
    "time_features",
    "write_rows",
]
