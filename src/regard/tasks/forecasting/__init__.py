"""Forecasting: series, and a model that continues them."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.tasks.forecasting.evaluation import FileForecasts, ForecastEvaluation
    from regard.tasks.forecasting.model import Forecaster

__getattr__ = on_demand(__name__, {"evaluation": ["FileForecasts", "ForecastEvaluation"], "model": ["Forecaster"]})

__all__ = ["FileForecasts", "ForecastEvaluation", "Forecaster"]
