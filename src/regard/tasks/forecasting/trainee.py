"""The trainee of forecasting: a model with its series, for the training loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.series import RepeatLast, SeriesBatch, forecasts_of
from regard.data.series.windows import carried_forward
from regard.layers.values import QUANTILES
from regard.losses import absolute_error, pinball_loss, squared_error
from regard.metrics import ForecastTally, ItemTerms
from regard.runs.trainee import AbstractArrayTrainee, numbered_pictures
from regard.tasks.compilation import CompiledLoss
from regard.tasks.decoder_losses import forced_outputs
from regard.tasks.forecasting.evaluation import figures, terms_of
from regard.tasks.forecasting.model import LARGEST, Forecaster, network_inputs
from regard.tasks.forecasting.reading import SeriesData, scale_of
from regard.training import Loss, Validation, feedback_mask, processes
from regard.viz import plot_forecast


class ForecastTrainee(AbstractArrayTrainee):
    """A `Forecaster` with the series that it is trained on."""

    model: Forecaster
    counted = "values"

    def __init__(self, model: Forecaster, material: SeriesData) -> None:
        self.model = model
        self.path = material.path
        self.windows = material.training_windows(self.config.data)
        self.held_out = material.validation_windows(self.config.data)
        training, loss = self.config.training, lambda batch: self._loss(batch, None)
        self._compiled_loss = CompiledLoss.of(training, loss, self.module, self.first)

    def descriptions(self, epoch: int) -> Sequence[Any]:
        order = np.random.default_rng((self.config.seed, epoch)).permutation(len(self.windows))
        size = self.config.training.batch_windows
        return [order[start : start + size] for start in range(0, len(order), size)]

    def batch(self, description: Any) -> dict[str, Tensor]:
        return training_batch(self.windows.batch(description))

    def item_ids(self, description: Any) -> Tensor:
        """The indices of the windows, or of their targets if each is a sequence of its own."""
        indices = np.asarray(description, dtype=np.int64)
        count = len(self.windows.table.target_names) if self.module.is_separate else 1
        return torch.from_numpy((indices[:, None] * count + np.arange(count)).ravel())

    def loss(self, batch: dict[str, Tensor], *, step: int, generator: torch.Generator) -> Loss:
        """The error of the observed values, teacher-forced or fed the decoder's own outputs as configured."""
        if self._compiled_loss is not None:
            total, count = self._compiled_loss(batch)
        else:
            rows, steps = batch["targets"].shape[:2]
            rows *= batch["targets"].shape[2] if self.module.is_separate else 1
            feedback = feedback_mask(self.config.training, rows, steps, step=step, generator=generator)
            total, count = self._loss(batch, feedback)
        return Loss(total, count)

    @torch.no_grad()
    def validate(self) -> Validation:
        """Errors of free-running forecasts and the teacher-forced loss on held-out windows, with pictures."""
        size, shown_windows = self.config.decoding.batch_windows, self.config.training.samples
        parts = [range(start, min(start + size, len(self.held_out))) for start in range(0, len(self.held_out), size)]
        results = [self._held_out(part) for part in processes.local_part(parts)]
        tally, repeated = ForecastTally(self.model.levels), ForecastTally()
        loss = count = 0.0
        for part, (values, quantiles, total, number) in zip(
            parts, processes.merged(processes.gathered(results)), strict=True
        ):
            batch = self.held_out.batch(part)
            tally.add(batch, values, quantiles)
            repeated.add(batch, RepeatLast().predict(batch))
            loss, count = loss + total, count + number
        metrics = {**figures(tally.overall()), "teacher_forced_loss": loss / max(count, 1)}
        chosen = np.linspace(0, len(self.held_out) - 1, min(shown_windows, len(self.held_out))).astype(int)
        forecasts = []
        if len(chosen):
            batch = self.held_out.batch(chosen)
            values, quantiles, weights = self.model.forecast_batch(batch, alignment=True)
            forecasts = forecasts_of(batch, values, levels=self.model.levels, quantiles=quantiles, alignment=weights)
        pictures = numbered_pictures(partial(plot_forecast, forecast) for forecast in forecasts)
        samples = [
            f"{forecast.series} {forecast.clock.shown(forecast.times[0])}: {_numbers(forecast.values)}   "
            f"(observed {_numbers(forecast.truth)})".strip()
            for forecast in forecasts
        ]
        return Validation(
            metrics, samples, pictures, _concern(metrics["mean_squared_error"], repeated.overall().mean_squared_error)
        )

    @torch.no_grad()
    def held_out_terms(self) -> ItemTerms:
        windows, tally = self.held_out, ForecastTally(self.model.levels, keep_windows=True)
        for batch in windows.batches(self.config.decoding.batch_windows):
            tally.add(batch, *self.model.forecast_batch(batch)[:2])
        scale, _ = scale_of(windows.table, self.model.scale)
        return terms_of(windows, scale, tally)

    @property
    def examples(self) -> Iterator[str]:
        """The training file, which ends where its forecast begins."""
        folder = Path.cwd()
        return iter([str(self.path.relative_to(folder) if self.path.is_relative_to(folder) else self.path)])

    def _held_out(self, part: range) -> tuple[Any, Any, float, float]:
        """Free-running forecasts of held-out windows, and the sum and count of their teacher-forced loss."""
        batch = self.held_out.batch(part)
        values, quantiles, _ = self.model.forecast_batch(batch)
        total, count = self._loss(self.on_device(training_batch(batch)), None)
        return values, quantiles, float(total), float(count)

    def _loss(self, batch: dict[str, Tensor], feedback: Tensor | None) -> tuple[Tensor, Tensor]:
        """The sum of the loss and the number of its terms."""
        network = self.module
        conditions = network.prepare(batch)
        inputs = conditions.inputs(network.split(batch["previous"]))
        output = forced_outputs(network.decoder, conditions.memory, inputs, feedback, feed=conditions.feed)
        targets, observed = network.split(batch["targets"]), network.split(batch["targets_observed"])
        assert output.values is not None
        if self.model.levels:
            return pinball_loss(output.auxiliary[QUANTILES], targets, self.model.levels, observed)
        error = absolute_error if self.config.training.loss == "absolute_error" else squared_error
        return error(output.values, targets, observed)


def training_batch(batch: SeriesBatch) -> dict[str, Tensor]:
    """The tensors of windows for training: the network's inputs, the truth, and the values of the previous steps.

    A missing value of a previous step is the last one before it.
    """
    truth = np.clip(batch.targets, -LARGEST, LARGEST)
    length = batch.history_mask.sum(axis=1)
    last = np.take_along_axis(batch.history, np.maximum(length - 1, 0)[:, None, None], axis=1)
    previous = np.concatenate([last, np.where(batch.targets_observed, truth, np.nan)[:, :-1]], axis=1)
    return {
        **network_inputs(batch),
        "targets": torch.from_numpy(truth).float(),
        "targets_observed": torch.from_numpy(batch.targets_observed),
        "previous": torch.from_numpy(np.clip(carried_forward(previous), -LARGEST, LARGEST)).float(),
    }


def _concern(error: float, repeated: float) -> str | None:
    """A warning if the forecasts are worse than the last value repeated."""
    if error <= repeated:
        return None
    return f"The saved model's forecasts are worse than the last value repeated: MSE {error:.4g}, {repeated:.4g}."


def _numbers(values: np.ndarray) -> str:
    """The first target of the first steps."""
    few = values[:4, 0]
    return " ".join("?" if np.isnan(value) else f"{value:.4g}" for value in few) + " …" * (len(values) > 4)
