"""What can be known to be wrong with a training before it touches its folder."""

from __future__ import annotations

import importlib.util

from regard.config.schema import TrainingConfig
from regard.errors import ConfigError, RegardError
from regard.training import device
from regard.training.precision import Precision
from regard.training.schedule import Schedule
from regard.training.trainee import Trainee


def check_ready(config: TrainingConfig, trainee: Trainee | None = None) -> None:
    """Refuses a training that could not make its first step.

    Args:
        config: the part `training` of a configuration.
        trainee: what is trained, once it is there.

    Raises:
        ConfigError: for a device that is not there, rates that contradict each other, TensorBoard that is missing.
        RegardError: for training data without batches, for a module without parameters to train.
    """
    Precision(config.precision, device.choose(config.device))
    Schedule(config, total_steps=0)
    if config.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise ConfigError(
            "training.tensorboard is on, but tensorboard is not installed. "
            "Install it (pip install 'regard[log]') or switch it off.",
            ("training", "tensorboard"),
        )
    if trainee is not None:
        if config.epochs and not len(trainee.plan(0)):
            raise RegardError("There are no batches to train on: is every pair longer than data.max_length, or empty?")
        if not any(parameter.requires_grad for parameter in trainee.module.parameters()):
            raise RegardError(f"{type(trainee.module).__name__} has no parameters to train.")
