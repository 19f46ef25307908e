"""Forecasting: a trained model with everything that forecasts need."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.data.csv_fields import DELIMITERS, csv_line
from regard.data.series import (
    Forecast,
    LinearForecast,
    Series,
    SeriesBatch,
    SeriesTable,
    SeriesWindows,
    StandardScale,
    Step,
    TimeSplit,
    alignment_rows,
    find_step,
    forecast_rows,
    forecasts_of,
)
from regard.data.series.file import PARQUET
from regard.data.series.series import Values, title_of
from regard.decoding import free_run
from regard.errors import ConfigError, DataError, UnsupportedError, counted
from regard.layers.values import QUANTILES
from regard.metrics import ForecastTally, ItemTerms
from regard.runs.automatic_settings import replaced
from regard.runs.calibration import Stated
from regard.runs.contract import MOST_WEIGHTS, STATED, AbstractModel, shown_json
from regard.runs.fingerprints import fingerprint
from regard.runs.given import of_data, of_inputs, temporary_file
from regard.runs.observation import observed
from regard.runs.predictions import rounded
from regard.tasks.forecasting.baselines import Baselines, BaselineTally
from regard.tasks.forecasting.config import ForecastingConfig
from regard.tasks.forecasting.evaluation import FileForecasts, ForecastEvaluation, ScoredSeries, terms_of
from regard.tasks.forecasting.facts import SeriesFacts
from regard.tasks.forecasting.network import ForecastNetwork, build_network
from regard.tasks.forecasting.reading import COLUMNS, WINDOW_SCALES, listed, minimum_of, read_table, scale_of
from regard.viz import plot_forecast
from regard.viz.files import numbered_files

if TYPE_CHECKING:
    from regard.runs.report import ReportFacts

FACTS, SCALE, LINEAR = "series.json", "scale.json", "linear.npy"
MOST_ROWS, MOST_COLUMNS = 100_000, 1_000
"""The most rows and columns of the series that a server gets."""
LARGEST = 1e6
"""The limit at which scaled values are clipped, so that no input overflows in the network."""


@dataclass(frozen=True, slots=True)
class SeriesFile:
    """An input: the series of a file, and its name."""

    name: str
    table: SeriesTable


@dataclass(eq=False, repr=False)
class Forecaster(AbstractModel[ForecastingConfig]):
    """A model of series: its network, the scale of the training rows, and the linear baseline.

    Args:
        facts: names, step and calendar of the series.
        linear: the ridge regression of the training windows.
    """

    config: ForecastingConfig
    facts: SeriesFacts
    scale: StandardScale
    linear: LinearForecast
    module: ForecastNetwork

    no_confidence = "a forecast is never exactly right; quantiles (model.quantiles) express its uncertainty"
    assets: ClassVar[tuple[str, ...]] = (FACTS, SCALE, LINEAR)
    input_kind = "file"
    formats = ("csv", "jsonl")
    folder_suffixes = (".csv", *PARQUET)

    @classmethod
    def build(
        cls,
        config: ForecastingConfig,
        facts: SeriesFacts,
        scale: StandardScale,
        linear: LinearForecast,
        *,
        name: str = "model",
    ) -> Forecaster:
        """An untrained model; its weights are drawn from torch's global generator."""
        module = build_network(
            config.model,
            num_targets=len(facts.target_names),
            num_known=facts.num_known,
            history=config.data.history,
            horizon=config.data.horizon,
        )
        if module.linear is not None:
            module.linear.weights.copy_(torch.from_numpy(linear.weights))
        return cls(config, module, facts, scale, linear, name=name)

    def save_assets(self, folder: Path) -> None:
        self.facts.save(folder / FACTS)
        self.scale.save(folder / SCALE)
        np.save(folder / LINEAR, self.linear.weights, allow_pickle=False)

    def unlike(self, other: Forecaster) -> Sequence[str]:
        return [
            f"{what}: {ours} here, {theirs} there"
            for what, ours, theirs in (
                ("targets", listed(self.facts.target_names), listed(other.facts.target_names)),
                ("rows", f"every {self.facts.step}", f"every {other.facts.step}"),
            )
            if ours != theirs
        ]

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels of the quantiles of the network."""
        return self.config.model.quantiles or ()

    def read(self, argument: str) -> SeriesFile:
        """The series of a file that has the columns of the training file.

        Raises:
            DataError: for a file that cannot be read, or with rows at other steps.
        """
        data = self.config.data
        names = {} if data.wide else {"targets": self.facts.target_names, "known": self.facts.known_names}
        zones = self.facts.zones
        shared = next(iter(zones.values())) if len(set(zones.values())) == 1 else None  # also of series training lacked
        table = read_table(data.model_copy(update=names), argument, step=self.facts.step, zones=shared or zones)
        longest = max(table.series, key=len)
        step = _usual_step(longest, table.step)
        if table.target_names != self.facts.target_names or step != self.facts.step:
            raise DataError(
                f"{argument}: {listed(table.target_names)} at steps of {step}; {self.name} forecasts "
                f"{listed(self.facts.target_names)} at steps of {self.facts.step}."
            )
        return SeriesFile(str(argument), table)

    def from_json(self, value: Any) -> SeriesFile:
        """Series `{"csv": the content of a file}`, or `{"columns": {name: values}}`."""
        if not isinstance(value, dict) or len(value) != 1 or not {"csv", "columns"} & value.keys():
            raise DataError(f'expected {{"csv": …}} or {{"columns": …}}; got {shown_json(value)}.')
        if "columns" in value:
            columns = value["columns"]
            if not isinstance(columns, dict) or not all(isinstance(each, list) for each in columns.values()):
                raise DataError(f"columns: expected lists of values by name; got {shown_json(columns)}.")
            _check_size("columns", max(map(len, columns.values()), default=0), len(columns))
            return replace(self._read_objects(columns), name="columns")
        if not isinstance(text := value["csv"], str):
            raise DataError(f"csv: expected the content of a CSV file as a text; got {shown_json(text)}.")
        lines = text.splitlines()
        _check_size("csv", len(lines), max((max(map(line.count, DELIMITERS)) for line in lines), default=0))
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            path = Path(folder) / "sent.csv"
            path.write_text(text, encoding="utf-8", newline="")
            try:
                return replace(self.read(str(path)), name="csv")
            except DataError as error:
                raise DataError(str(error).replace(str(path), "csv")) from None

    def input_schema(self) -> dict[str, Any]:
        columns = {"type": "object", "additionalProperties": {"type": "array"}}
        return {
            "anyOf": [
                {"type": "object", "properties": {name: form}, "required": [name], "additionalProperties": False}
                for name, form in (("csv", {"type": "string"}), ("columns", columns))
            ]
        }

    def listed(self, inputs: Any) -> Any:
        """Files or their series; a table, an array or a series of Python is one input, and so is each of a list."""
        if isinstance(inputs, str | Path | SeriesFile):
            return inputs
        several = isinstance(inputs, list | tuple) and all(map(_is_whole, inputs))
        return [
            each if isinstance(each, str | Path | SeriesFile) else self._read_objects(each)
            for each in (inputs if several else [inputs])
        ]

    def _read_objects(self, data: Any) -> SeriesFile:
        with temporary_file(self.config, data) as written:
            reader = copy(self)
            reader.config = replaced(self.config, written.keys)
            return SeriesFile(written.name, reader.read(str(written.path)).table)

    @of_inputs
    def predict(
        self, inputs: Sequence[SeriesFile | str | Path], *, alignment: bool = True, strict: bool = False
    ) -> list[FileForecasts]:
        """Forecasts the steps (`decoding`) after the last observed row of every series.

        A series that cannot be forecast, or not as it is, does not affect the others; there is a warning.

        Args:
            inputs: files, or results of `read`.
            alignment: whether forecasts have their weights over the history.
            strict: raises an error for a file with a warning.

        Raises:
            ConfigError: for steps or quantiles that the network does not have.
            DataError: for the first file with a warning, if `strict`.
        """
        if isinstance(inputs, str | Path | SeriesFile):
            raise TypeError(f"predict takes a list of files, as in predict([file]); got {type(inputs).__name__}.")
        self._check_decoding()
        results = []
        for each in inputs:
            file = each if isinstance(each, SeriesFile) else self.read(str(each))
            result = self._forecast(file, alignment=alignment)
            if strict and result.warnings:
                raise DataError(f"{file.name}: {'; '.join(result.warnings)}")
            results.append(result)
        return results

    @of_data
    def evaluate(self, path: Path | str) -> ForecastEvaluation:
        """Compares forecasts that begin at every step with the observed values.

        Of the training file only the test part is forecast; of any other file the rows after those that training and
        validation used of the series of the same name.

        Raises:
            DataError: for a file without such rows.
        """
        self._check_decoding()
        table = self.read(str(path)).table
        is_trained = fingerprint(path) == self.fingerprints.get("train")
        split, notes = self._unseen(table, is_trained=is_trained)
        if is_trained and not any(end > start for _, _, start, end in split.bounds):
            raise DataError(f"{path}: {self.name} was trained on this file, and `data.split` leaves no test part.")
        scale, unknown = scale_of(table, self.scale)
        if unknown:
            notes.append(f"not in the training data, scaled by their own values: {listed(unknown)}")
        try:
            windows = self._windows(table, scale, split=split)
        except DataError as error:
            raise DataError(f"{path}: {error}" + "".join(f"\n  {note}" for note in notes)) from None
        known = Baselines.of(self.linear, self.facts.step, self.config.data.history)
        baselines, tally = BaselineTally(known, keep_windows=True), ForecastTally(self.levels, keep_windows=True)
        batches = windows.batches(self.config.decoding.batch_windows)
        for batch in observed(batches, lambda each: (len(each), len(each)), len(windows)):
            values, quantiles, _ = self.forecast_batch(batch)
            tally.add(batch, values, quantiles)
            baselines.add(batch)
        scored = [
            ScoredSeries(f"{path}" + (f": {name}" if name else ""), FileForecasts(str(path), ()), errors)
            for name, errors in tally.by_series().items()
        ]
        by_target = tally.by_target()
        empty = [each.place for each in scored if not each.errors.num_values]
        empty += [name for name, errors in by_target.items() if not errors.num_values and name not in empty]
        spans = [(table.series[i], int(start)) for i, start in windows.places]
        first = min(spans, key=lambda span: span[0].times[span[1]])
        last = max(spans, key=lambda span: span[0].times[span[1] + windows.horizon - 1])
        return ForecastEvaluation(
            len(windows),
            windows.horizon,
            first[0].shown(first[1]),
            last[0].shown(last[1] + windows.horizon - 1),
            tally.overall(),
            by_target,
            baselines.overall(),
            scored,
            tuple(notes),
            [f"no value was observed of {listed(empty)}, so there are no errors of it"] * bool(empty),
            windows,
            terms_of(windows, scale, tally, baselines),
        )

    def held_out(self) -> tuple[Path, dict[str, Any]] | None:
        """The held-out file, or the training file, of which only the test part is forecast."""
        return super().held_out() or (self.config.data.train, {})

    def item_terms(self, evaluation: ForecastEvaluation) -> ItemTerms:
        assert evaluation.terms is not None
        return evaluation.terms

    def prediction_of(self, read: tuple[SeriesWindows, int]) -> FileForecasts:
        """The forecast of a window, by its index."""
        return FileForecasts("", tuple(self.window_forecasts(read[0], [read[1]])))

    def evaluate_outputs(self, evaluation: ForecastEvaluation, outputs: Sequence[str]) -> ForecastEvaluation:
        """An output has the values of a forecast in the unit of the file: of each step, for each target."""
        windows = evaluation.windows
        assert windows is not None
        scale, _ = scale_of(windows.table, self.scale)
        known = Baselines.of(self.linear, self.facts.step, self.config.data.history)
        baselines, tally = BaselineTally(known, keep_windows=True), ForecastTally(keep_windows=True)
        size, shape = self.config.decoding.batch_windows, (windows.horizon, len(self.facts.target_names))
        for start in range(0, len(windows), size):
            batch = windows.batch(range(start, min(start + size, len(windows))))
            values = np.stack([_values(text, shape) for text in outputs[start : start + size]])
            mean, deviation = batch.series_mean[:, None], batch.series_deviation[:, None]
            standardised = (values - mean) / deviation
            tally.add(batch, (standardised - batch.centre[:, None]) / batch.deviation[:, None])
            baselines.add(batch)
        return replace(evaluation, errors=tally.overall(), terms=terms_of(windows, scale, tally, baselines))

    def report_facts(self, evaluation: ForecastEvaluation) -> ReportFacts:
        """Rolling forecasts as the rows of the table, errors by step, and the worst windows with their pictures."""
        from regard.tasks.forecasting.report import forecast_facts

        return forecast_facts(self, evaluation)

    @torch.inference_mode()
    def forecast_batch(
        self, batch: SeriesBatch, *, alignment: bool = False
    ) -> tuple[Values, Values | None, Values | None]:
        """Free-running forecasts of windows, on the scale of the batch.

        Returns:
            values (B, T, F); quantiles (B, T, F, Q) of a network that has them; and with `alignment` the weights
            (B, T, S) of a network with attention, means over heads and over targets that are forecast one at a time.
        """
        network, device = self.module, self.device
        conditions = network.prepare({name: tensor.to(device) for name, tensor in network_inputs(batch).items()})
        trajectories = free_run(
            network.decoder,
            conditions.memory,
            conditions.first,
            max_length=batch.targets.shape[1],
            feed=conditions.feed,
            alignment=alignment,
        )
        count = len(batch)
        values = network.joined(torch.stack([run.values for run in trajectories]), count)
        quantiles = weights = None
        if self.levels:
            quantiles = network.joined(torch.stack([run.auxiliary[QUANTILES] for run in trajectories]), count)
        name = network.decoder.main_attention
        if name in trajectories[0].alignments:
            weights = torch.stack([run.alignments[name].mean(0) for run in trajectories])
            weights = weights.unflatten(0, (count, -1)).mean(1)
        floor = self._floor(batch)
        return (
            np.maximum(values.double().numpy(), floor),
            None if quantiles is None else np.maximum(quantiles.double().numpy(), floor[..., None]),
            None if weights is None else weights.double().numpy(),
        )

    def window_forecasts(self, windows: SeriesWindows, indices: Sequence[int]) -> list[Forecast]:
        """The forecasts of windows by index, with their weights and the observed values."""
        if not indices:
            return []
        batch = windows.batch(np.array(indices))
        values, quantiles, weights = self.forecast_batch(batch, alignment=True)
        return forecasts_of(batch, values, levels=self.levels, quantiles=quantiles, alignment=weights)

    def rows(self, prediction: FileForecasts, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """A row for each step: series, step, time, targets and quantiles."""
        return [list(map(str, row.values())) for row in forecast_rows(self._shown(prediction))]

    def is_number(self, column: str) -> bool:
        return column not in (*COLUMNS, "past_time") or column == "step"

    def has_failed(self, prediction: FileForecasts) -> bool:
        return not prediction.forecasts

    def record(self, prediction: FileForecasts) -> dict[str, Any]:
        """The rows of a file and its warnings."""
        return {
            "file": prediction.name,
            "forecasts": list(forecast_rows(self._shown(prediction))),
            "warnings": list(prediction.warnings),
        }

    def lines(
        self,
        predictions: Sequence[FileForecasts],
        format: str,
        *,
        scores: bool = False,
        alignments: bool = False,
        stated: Stated = STATED,
    ) -> Iterator[str]:
        """A tidy table with a header: a row for each step, or with `alignments` for each weight of a step.

        Rows of several files begin with the file's name.

        Raises:
            UnsupportedError: for weights of a model without attention.
        """
        if scores:
            raise UnsupportedError("Forecasts have no scores; quantiles (model.quantiles) express their uncertainty.")
        header: list[str] | None = None
        for prediction in predictions:
            for row in self._table(prediction, alignments=alignments):
                named = {"file": prediction.name, **row} if len(predictions) > 1 else row
                if format == "jsonl":
                    yield json.dumps(named, ensure_ascii=False)
                    continue
                if header is None:
                    header = list(named)
                    yield csv_line(header)
                yield csv_line(named.values())

    def can_plot(self, prediction: FileForecasts) -> bool:
        return bool(prediction.forecasts)

    def details(self, prediction: FileForecasts) -> dict[str, Any]:
        """Past, forecast, quantiles and weights of each series, as in `Forecast`; of many the first."""
        series, left = list[dict[str, Any]](), MOST_WEIGHTS
        for each in prediction.forecasts:
            arrays = (each.history, each.values, each.quantiles, each.alignment)
            left -= sum(array.size for array in arrays if array is not None)
            if series and left < 0:
                break
            history, values, quantiles, alignment = (None if array is None else rounded(array) for array in arrays)
            series.append(
                {
                    "series": each.series,
                    "targets": list(each.target_names),
                    "history_times": each.history_stamps,
                    "history": history,
                    "times": each.stamps,
                    "values": values,
                    "levels": list(each.levels),
                    "quantiles": quantiles,
                    "alignment": alignment,
                }
            )
        return {"series": series}

    def plot(self, predictions: Sequence[FileForecasts], path: Path, *, title: str = "") -> Sequence[Path]:
        """Draws history, forecast, truth if there is any, and weights; a numbered file for each of several series."""
        forecasts = [forecast for prediction in predictions for forecast in self._shown(prediction)]
        return [
            plot_forecast(forecast, file, title=" ".join(part for part in (title, forecast.series) if part))
            for forecast, file in zip(forecasts, numbered_files(path, len(forecasts)), strict=True)
        ]

    def description(self) -> dict[str, Any]:
        return {
            "targets": ", ".join(self.facts.target_names),
            "known": ", ".join((*self.facts.known_names, *self.facts.features)),
            "series": len(self.scale.names),
            "step": str(self.facts.step),
            "history": self.config.data.history,
            "horizon": self.config.data.horizon,
        }

    def _floor(self, batch: SeriesBatch) -> Values:
        """(B, 1, F), the minima of forecasts (`data.minimum`) on the scale of a batch."""
        least = np.full(len(batch.target_names), -np.inf)
        for name, value in minimum_of(self.config.data, batch.target_names).items():
            least[batch.target_names.index(name)] = value
        return (((least - batch.series_mean) / batch.series_deviation - batch.centre) / batch.deviation)[:, None]

    def _check_decoding(self) -> None:
        decoding = self.config.decoding
        check_steps(self.config)
        if lacking := [level for level in decoding.quantiles or () if level not in self.levels]:
            has = f"has the levels {', '.join(map(str, self.levels))}" if self.levels else "has no quantiles"
            raise ConfigError(f"there is no quantile {lacking[0]:g}: the model {has}", ("decoding", "quantiles"))

    def _windows(self, table: SeriesTable, scale: StandardScale, **options: Any) -> SeriesWindows:
        """The windows of a table that this model forecasts; options as of `SeriesWindows`."""
        data, decoding = self.config.data, self.config.decoding
        return SeriesWindows(
            table,
            history=data.history,
            horizon=decoding.steps or data.horizon,
            part="test",
            scale=scale,
            window_scale=WINDOW_SCALES[data.window_scale],
            features=self.facts.features,
            **options,
        )

    def _forecast(self, file: SeriesFile, *, alignment: bool) -> FileForecasts:
        """The forecasts of the series of a file."""
        table, decoding = file.table, self.config.decoding
        scale, unknown = scale_of(table, self.scale)
        warnings = [f"series {name!r} was not in the training data; it is scaled by its own values" for name in unknown]
        try:
            windows = self._windows(table, scale, in_future=True, shortest_history=1, hold_back=decoding.hold_back)
        except DataError:
            return FileForecasts(file.name, (), (*warnings, "there is no observed value to begin with"))
        forecasts: list[Forecast] = []
        for batch in windows.batches(decoding.batch_windows):
            values, quantiles, weights = self.forecast_batch(batch, alignment=alignment)
            forecasts += forecasts_of(batch, values, levels=self.levels, quantiles=quantiles, alignment=weights)
            warnings += self._warnings(batch)
        names = {table.series[index].name for index in windows.places[:, 0]}
        empty = (series.title for series in table.series if series.name not in names)
        warnings += [f"{title} has no observed value to begin with" for title in empty]
        warnings += self._unknown_futures(table, windows)
        return FileForecasts(file.name, tuple(forecasts), tuple(warnings))

    def _warnings(self, batch: SeriesBatch) -> Iterator[str]:
        """Warnings about windows that differ from those of the training."""
        size = self.config.data.history
        for number, title in enumerate(map(title_of, batch.names)):
            steps = int(batch.history_mask[number].sum())
            if steps < size:
                yield f"{title} has {counted(steps, 'row|rows')}; training had histories of {size:,}"
            if np.abs(batch.history[number]).max() > LARGEST:
                yield f"{title} has values above {LARGEST:,.0f} deviations from the mean; they are cut off there"

    def _unknown_futures(self, table: SeriesTable, windows: SeriesWindows) -> Iterator[str]:
        """Warnings about known inputs that are missing in the horizon."""
        for index, start in windows.places:
            series = table.series[index]
            ahead = series.known[start : start + windows.horizon]
            for column, name in enumerate(table.known_names):
                there = int((~np.isnan(ahead[:, column])).sum())
                if there < windows.horizon:
                    yield (
                        f"{series.title}: {name!r} is missing for {windows.horizon - there:,} of "
                        f"{windows.horizon:,} steps ahead; its mean takes their place"
                    )

    def _unseen(self, table: SeriesTable, *, is_trained: bool) -> tuple[TimeSplit, list[str]]:
        """The rows of each series that training did not use, as the test part of a split, and a note about the rest."""
        bounds, hidden = [], []
        for series in table.series:
            start, end = 0, series.end
            if series.name in self.facts.seen:
                after, until = self.facts.seen[series.name]
                start = min(int(np.searchsorted(series.times, after)), series.end)
                end = min(int(np.searchsorted(series.times, until)), series.end) if is_trained else series.end
                if start and not is_trained:
                    hidden.append(f"{series.title}, before {series.clock.shown(after)}")
            bounds.append((0, 0, start, max(start, end)))
        notes = [f"rows that training may have seen are left out: {'; '.join(hidden[:3])}"] if hidden else []
        if len(hidden) > 3:
            notes[0] += f" and {len(hidden) - 3:,} more series"
        return TimeSplit(tuple(bounds)), notes

    def _shown(self, prediction: FileForecasts) -> tuple[Forecast, ...]:
        """The forecasts with the quantiles that `decoding.quantiles` chooses."""
        levels = self.config.decoding.quantiles
        if levels is None:
            return prediction.forecasts
        shown = []
        for forecast in prediction.forecasts:
            assert forecast.quantiles is not None
            at = [forecast.levels.index(level) for level in levels]
            quantiles = forecast.quantiles[..., at] if at else None
            shown.append(replace(forecast, levels=levels, quantiles=quantiles))
        return tuple(shown)

    def _table(self, prediction: FileForecasts, *, alignments: bool) -> Iterable[dict[str, str | int | float]]:
        if not alignments:
            return forecast_rows(self._shown(prediction))
        if any(forecast.alignment is None for forecast in prediction.forecasts):
            raise UnsupportedError(f"{self.name} was trained without attention, so there are no weights.")
        return alignment_rows(prediction.forecasts)


def _values(text: str, shape: tuple[int, int]) -> Values:
    """The numbers of a forecast (T, F) of another program."""
    try:
        return np.array(text.replace(",", " ").split(), np.float64).reshape(shape)
    except ValueError:
        raise DataError(
            f"a forecast has {shape[0] * shape[1]:,} numbers, of {counted(shape[0], 'step|steps')} and "
            f"{counted(shape[1], 'target|targets')}; got {text!r:.60}."
        ) from None


def _check_size(name: str, rows: int, columns: int) -> None:
    """Raises DataError for more rows or columns than a server reads."""
    for count, most, what in ((rows, MOST_ROWS, "rows"), (columns, MOST_COLUMNS, "columns")):
        if count > most:
            raise DataError(f"{name}: {count:,} {what}; at most {most:,} are read. Send the last ones, or fewer.")


def _is_whole(data: Any) -> bool:
    """Whether data are an input, not a row of one: a file, a table or series of pandas, or a dict of columns."""
    if isinstance(data, Mapping):
        return all(isinstance(column, Iterable) and not isinstance(column, str) for column in data.values())
    return isinstance(data, str | Path | SeriesFile) or hasattr(data, "iloc")


def check_steps(config: ForecastingConfig) -> None:
    """Refuses more steps than those of the linear path."""
    steps, horizon = config.decoding.steps, config.data.horizon
    if steps is not None and steps > horizon and config.model.adds_to == "linear":
        raise ConfigError(
            f"the linear path has {horizon:,} steps (data.horizon), fewer than {steps:,}; train with "
            f"data.horizon={steps}, or with model.adds_to=previous or null, which go on beyond the horizon",
            ("decoding", "steps"),
        )


def network_inputs(batch: SeriesBatch) -> dict[str, Tensor]:
    """The inputs of the network for a batch, without a mask if there is no padding."""
    arrays = {name: getattr(batch, name) for name in ("history", "history_known", "future_known")}
    inputs = {name: torch.from_numpy(np.clip(array, -LARGEST, LARGEST)).float() for name, array in arrays.items()}
    inputs["history_observed"] = torch.from_numpy(batch.history_observed)
    if not batch.history_mask.all():
        inputs["history_mask"] = torch.from_numpy(batch.history_mask)
    return inputs


def _usual_step(series: Series, step: Step) -> Step:
    """The step between most rows of a file, of which others are gaps."""
    rows = np.flatnonzero(np.ones(len(series)) if series.lines is None else series.lines)
    apart = np.diff(rows)
    if len(apart) and np.bincount(apart).argmax() != 1:
        return find_step(series.times[rows], series.clock)
    return step
