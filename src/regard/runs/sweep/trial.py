"""A training of a search for settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

State = Literal["running", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Trial:
    """A training of a search for settings.

    Args:
        number: from 0; trial 0 has the configuration as it is.
        state: running; finished; stopped by successive halving; or failed.
        value: the metric that `select` names: of the saved model, or the best so far if the training was stopped; None
            if there is none.
        steps: optimiser steps until the end or the last validation.
        validations: their number.
        settings: the values of the keys of the search, by dotted key.
        seconds: of training and validation.
        reason: of a failure.
        folder: the run folder.
    """

    number: int
    state: State
    value: float | None
    steps: int
    validations: int
    settings: Mapping[str, Any]
    seconds: float
    reason: str | None
    folder: Path
