"""The task of forecasting series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import Findings
from regard.data.objects import WrittenData
from regard.data.series import TIME_FEATURES, LinearForecast, StandardScale
from regard.errors import ConfigError, DataError
from regard.files import read_array
from regard.runs.contract import AbstractTask, Metric
from regard.runs.fingerprints import DAMAGED
from regard.runs.plan import Plan
from regard.runs.trained_items import DataItem
from regard.tasks.compilation import check_compilable
from regard.tasks.forecasting.config import ForecastingConfig
from regard.tasks.forecasting.defaults import resolve, with_sizes
from regard.tasks.forecasting.facts import SeriesFacts
from regard.tasks.forecasting.model import FACTS, LINEAR, SCALE, Forecaster, check_steps
from regard.tasks.forecasting.network import ForecastNetwork, build_network
from regard.tasks.forecasting.objects import write_series
from regard.tasks.forecasting.reading import SeriesData, listed, read_material, rows_of
from regard.tasks.forecasting.trainee import ForecastTrainee
from regard.tasks.learnable import check_learnable

PINBALL = "pinball_loss"
SPLIT = [0.8, 0.2, 0.0]
"""The shares of the rows of a new file for training, validation and test."""


class ForecastingTask(AbstractTask[ForecastingConfig]):
    """Series, and a model that continues them."""

    summary = "series of numbers, continued: points or quantiles, from their past and from what is known in advance"
    metrics = (
        Metric("mean_squared_error", aliases=("mse",)),
        Metric("mean_absolute_error", aliases=("mae",)),
        Metric(PINBALL),
        Metric("teacher_forced_loss", aliases=("loss",)),
    )

    def draft(self, config: ForecastingConfig) -> ForecastNetwork:
        has_quantiles, loss = config.model.quantiles is not None, config.training.loss
        if config.select == PINBALL and not has_quantiles:
            raise ConfigError("pinball_loss needs a model of quantiles; set model.quantiles", ("select",))
        if loss is not None and has_quantiles != (loss == PINBALL):
            advice = f"the model has quantiles, and {loss} ignores them" if has_quantiles else "set model.quantiles"
            raise ConfigError(f"quantiles and pinball_loss belong together: {advice}", ("training", "loss"))
        check_steps(config)
        features = config.data.time_features or TIME_FEATURES
        module = build_network(
            config.model,
            num_targets=2,
            num_known=len(config.data.known) + 2 * len(features),
            history=config.data.history,
            horizon=config.data.horizon,
        )
        core = getattr(module.decoder, "core", module.decoder)
        check_learnable(core, config.model.attention, memory_size=module.encoder.output_size)
        check_compilable(config.training)
        return module

    def write_data(self, config: ForecastingConfig, data: Any, folder: Path, name: str) -> WrittenData:
        return write_series(config.data, data, folder, name)

    def read(self, config: ForecastingConfig) -> SeriesData:
        return read_material(config.data)

    def check(self, config: ForecastingConfig, material: SeriesData) -> Findings:
        return material.check(with_sizes(config, material).config.data)

    def items(self, material: SeriesData) -> tuple[Iterable[DataItem], Iterable[DataItem]]:
        """The training rows and those of a held-out file; none without such a file."""
        if material.held_out is material.table:
            return (), ()
        train = rows_of(material.table, material.split, "train")
        return train, rows_of(material.held_out, material.held_out_split, "validation")

    def continued(self, config: ForecastingConfig, material: SeriesData, base: Forecaster) -> SeriesData:
        """The series, with the scales of the model and its ridge regression; without, if targets or steps differ."""
        table, facts = material.table, base.facts
        names = table.target_names, table.known_names, table.step
        if names != (facts.target_names, facts.known_names, facts.step):
            return material
        size = len(facts.target_names), config.data.history + 1, config.data.horizon
        scale = base.scale.extended(material.scale)
        held_out = scale.extended(material.held_out_scale).of(material.held_out.names)
        learned = base.linear if base.linear.weights.shape == size else None
        return replace(material, scale=scale, held_out_scale=held_out, seen=facts.seen, learned=learned)

    def adapted(self, config: ForecastingConfig) -> Mapping[str, Any]:
        """No row of a new file is for a test, unless it is said."""
        return {"data.split": {"fractions": SPLIT}, "data.dev_stride": ...}

    def new_part(self, material: SeriesData, base: Forecaster, name: str) -> SeriesData:
        """The rows after those that the model has seen."""
        table, facts = material.table, base.facts
        if not material.seen:
            raise DataError(
                f"{name}: targets {listed(table.target_names)}, known inputs {listed(table.known_names) or 'none'}, "
                f"rows every {table.step}; {base.name} has {listed(facts.target_names)}, "
                f"{listed(facts.known_names) or 'none'}, every {facts.step}."
            )
        return material.after(material.seen)

    def sizes(self, material: SeriesData) -> tuple[int, int]:
        return material.num_rows

    def joined(self, material: SeriesData, former: SeriesData, *, train: float, dev: float, seed: int) -> SeriesData:
        """The new series with passages of the former ones, evenly spaced."""
        return material.joined(former, train=train, dev=dev)

    def known_to(self, material: SeriesData, model: Forecaster) -> SeriesData:
        return self.continued(model.config, material, model)

    def resolve(self, config: ForecastingConfig, material: SeriesData, report: Findings) -> Plan[ForecastingConfig]:
        return resolve(config, material)

    def build(self, config: ForecastingConfig, material: SeriesData, *, name: str) -> Forecaster:
        facts = SeriesFacts.of(config.data, material)
        return Forecaster.build(config, facts, material.scale, material.linear(config), name=name)

    def trainee(self, model: Forecaster, material: SeriesData) -> ForecastTrainee:
        return ForecastTrainee(model, material)

    def restore(self, config: ForecastingConfig, folder: Path, *, name: str) -> Forecaster:
        facts, scale = SeriesFacts.load(folder / FACTS), StandardScale.load(folder / SCALE)
        targets = len(facts.target_names)
        if scale.mean.shape[1] != targets:
            raise DataError(
                f"{folder / SCALE}: it has {scale.mean.shape[1]} targets, and {FACTS} {targets}; the files do not "
                f"belong together.\n  {DAMAGED}"
            )
        linear = _linear(folder / LINEAR, (targets, config.data.history + 1, config.data.horizon))
        return Forecaster.build(config, facts, scale, linear, name=name)


def _linear(path: Path, shape: tuple[int, ...]) -> LinearForecast:
    try:
        weights = read_array(path)
        if weights.shape != shape or weights.dtype != np.float64:
            raise ValueError(f"expected {shape} numbers of float64; got {weights.shape} of {weights.dtype}")
        if not (np.abs(weights) <= np.finfo(np.float32).max).all():
            raise ValueError("some are not finite in float32")
        return LinearForecast(weights)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: not the weights of the linear baseline ({error!s:.99}).\n  {DAMAGED}") from None


TASK = ForecastingTask()
