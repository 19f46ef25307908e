"""How far a run has come, in steps and batches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Position:
    """How far a run has come; plain values.

    Args:
        step: optimiser steps made.
        epoch: epochs completed.
        batch: used batches of the epoch that is not completed.
        seconds: seconds of training and validation.
        averaged: the steps of the validations whose weights are averaged if the run ends now.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    averaged: tuple[int, ...] = ()

    @property
    def current_epoch(self) -> int:
        """The epoch of the last step, counted from 1."""
        return self.epoch + (self.batch > 0)
