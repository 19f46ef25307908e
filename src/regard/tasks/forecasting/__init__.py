"""Forecasting: series, and a model that continues them."""

from regard.tasks.forecasting.evaluation import ForecastEvaluation
from regard.tasks.forecasting.model import FileForecasts, Forecaster

__all__ = ["FileForecasts", "ForecastEvaluation", "Forecaster"]
