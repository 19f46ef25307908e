"""A training of a search for settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from regard.config import Configuration
from regard.errors import ConfigError, DataError, RegardError
from regard.runs.run import TrainingRun
from regard.runs.training import train
from regard.training.report import Callback

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


def attempted(
    number: int, configuration: Configuration, folder: Path, *, callback: Callback, quiet: bool
) -> TrainingRun | str:
    """The training of a trial in its run folder, or the reason of its failure.

    Raises:
        RegardError: for an error that would end the other trainings, too: of a file that cannot be written, or in the
            configuration or the data of the first trial.
    """
    try:
        return train(configuration, folder, callback=callback, quiet=quiet)
    except (RegardError, MemoryError, torch.OutOfMemoryError) as error:
        if isinstance(error.__cause__, OSError) or (not number and isinstance(error, ConfigError | DataError)):
            raise
        return str(error).splitlines()[0] if str(error) else "out of memory"
