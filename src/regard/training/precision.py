"""The precision of the forward pass, and checks before a training writes into its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.config.schema import TrainingConfig
from regard.errors import ConfigError, RegardError
from regard.layers import Linear
from regard.layers.cells.layer import AbstractRecurrentLayer
from regard.ops import half
from regard.training import device
from regard.training.log import check_tensorboard
from regard.training.schedule import Schedule
from regard.training.trainee import Trainee

SMALLEST_SCALE = 2.0**-10
"""The scale of the loss at which float16 gradients overflow only if the loss is not finite."""


def check_precision(name: str, device: torch.device, module: nn.Module) -> None:
    """Raises `ConfigError` for a precision in which torch cannot train the module."""
    if name == "float16" and device.type == "cpu" and any(isinstance(part, nn.LSTM) for part in module.modules()):
        raise ConfigError(
            "an LSTM cannot be trained in float16 on a CPU: oneDNN has no such layer with gradients. Use precision "
            "bfloat16 or float32, a GPU, or another cell (model.encoder.cell and model.decoder.cell: gru)",
            ("training", "precision"),
        )


def weights_of_products(module: nn.Module) -> list[Tensor]:
    """The trained float32 weights and biases of linear maps and recurrent layers, each once."""
    kinds = Linear, AbstractRecurrentLayer
    parameters = (p for part in module.modules() if isinstance(part, kinds) for p in part.parameters(recurse=False))
    return list(dict.fromkeys(p for p in parameters if p.requires_grad and p.dtype == torch.float32))


class Precision:
    """Autocasting and, for float16, scaling of the loss; steps whose gradients overflow are skipped.

    Args:
        weights: weights that are converted together before each forward pass, instead of one by one.
    """

    def __init__(
        self,
        name: Literal["float32", "bfloat16", "float16"],
        device: torch.device,
        weights: Sequence[Tensor] = (),
    ) -> None:
        self._weights = weights
        self._dtype: torch.dtype = getattr(torch, name)
        self._device = device.type
        self._scaler = torch.amp.GradScaler(device.type, enabled=name == "float16")

    @property
    def may_overflow(self) -> bool:
        """Whether gradients may sometimes not be finite."""
        return self._scaler.is_enabled()

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """The context of the forward pass."""
        if self._dtype is torch.float32:
            yield
            return
        with half.copied(self._weights, self._dtype), torch.autocast(self._device, dtype=self._dtype):
            yield

    def backward(self, loss: Tensor) -> None:
        """Accumulates the gradients of a loss."""
        self._scaler.scale(loss).backward()

    def unscale(self, optimizer: Optimizer) -> None:
        """Divides the gradients by the scale of the loss."""
        self._scaler.unscale_(optimizer)

    def step(self, optimizer: Optimizer) -> None:
        """Makes the optimiser's step, unless float16 gradients have overflowed."""
        self._scaler.step(optimizer)
        self._scaler.update()

    def check(self) -> None:
        """Raises `RegardError` if gradients overflow at every scale; waits for the device."""
        if self.may_overflow and self._scaler.get_scale() < SMALLEST_SCALE:
            raise RegardError(
                "float16 gradients overflow at every scale: the loss itself is not finite. "
                "Try training.precision: bfloat16 or float32, or a lower training.learning_rate."
            )

    def state(self) -> dict[str, Any]:
        """The state that a resumed run needs; empty unless the precision is float16."""
        return self._scaler.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        if state:
            self._scaler.load_state_dict(state)


def check_ready(config: TrainingConfig, trainee: Trainee | None = None) -> None:
    """Raises `ConfigError` or `RegardError` for a training that could not make its first step."""
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
