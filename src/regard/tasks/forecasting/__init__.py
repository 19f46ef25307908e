"""Forecasting: series, and a model that continues them."""

from regard.tasks.forecasting.evaluation import FileForecasts, ForecastEvaluation
from regard.tasks.forecasting.model import Forecaster

__all__ = ["FileForecasts", "ForecastEvaluation", "Forecaster"]
