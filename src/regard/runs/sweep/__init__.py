"""Searches for settings: trainings with drawn values of some keys, compared by their held-out data."""
