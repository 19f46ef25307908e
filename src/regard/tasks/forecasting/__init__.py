"""Forecasting: series of numbers, and a model that continues them."""
