"""Checks of a training before it writes into its folder."""

from __future__ import annotations

from regard.config.schema import TrainingConfig
from regard.errors import ConfigError, RegardError
from regard.training import device
from regard.training.log import check_tensorboard
from regard.training.precision import Precision
from regard.training.schedule import Schedule
from regard.training.trainee import Trainee


def check_ready(config: TrainingConfig, trainee: Trainee | None = None) -> None:
    """Refuses a training that could not make its first step.

    Args:
        config: the section `training` of a configuration.
        trainee: the trainee; without one, only the configuration is checked.

    Raises:
        ConfigError: for a device that does not exist, learning rates that contradict each other, or TensorBoard that is
            not installed.
        RegardError: for training data without batches, or a module without parameters to train.
    """
    Precision(config.precision, device.choose(config.device))
    Schedule(config, total_steps=0)
    if config.tensorboard:
        check_tensorboard()
    if trainee is not None:
        if config.schedule == "noam" and config.noam_size is None:
            raise ConfigError("schedule: noam needs the size of the model; set noam_size", ("training", "noam_size"))
        if config.epochs and not len(trainee.descriptions(0)):
            raise RegardError("There are no batches to train on. Is every pair empty, or longer than data.max_length?")
        if not any(parameter.requires_grad for parameter in trainee.module.parameters()):
            raise RegardError(f"{type(trainee.module).__name__} has no parameters to train.")
