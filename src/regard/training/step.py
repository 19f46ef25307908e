"""An optimiser step: the gradients of its batches, clipping, and the update of the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.utils import clip_grads_with_norm_
from torch.optim import Adam, AdamW, Optimizer

from regard.config.schema import TrainingConfig
from regard.errors import ConfigError, RegardError
from regard.layers.items import ItemDraws, drawing, sites
from regard.training import processes
from regard.training.accumulation import LocalBatch
from regard.training.device import move
from regard.training.exchange import Exchange
from regard.training.precision import Precision
from regard.training.trainee import DivisibleTrainee, Loss, PlacedTrainee, Trainee

SHOWN = 8
"""The most items of a batch that a message lists."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a step, as plain numbers.

    Args:
        loss: the sum over the real symbols of all batches.
        count: the number of those symbols.
        metrics: further sums, by name.
        gradient_norm: over all parameters, before clipping.
        skipped: whether float16 gradients overflowed, so that the weights were not changed.
    """

    loss: float
    count: float
    metrics: dict[str, float]
    gradient_norm: float
    skipped: bool


class Stepper:
    """Makes steps: forward and backward passes, division by the number of real symbols, clipping, the optimiser.

    Several processes make a step together, each with its parts of the batches; up to rounding it is the step of a
    single process.

    Args:
        seed: of random draws that belong to items.
    """

    def __init__(self, trainee: Trainee, config: TrainingConfig, device: torch.device, *, seed: int = 0) -> None:
        self._trainee = trainee
        self._seed = seed
        self.exchange = Exchange(trainee, device, config.sharding)
        self._sites = sites(trainee.module)
        self._clip_norm = config.clip_norm
        self._device = device
        self._parameters = [p for p in trainee.module.parameters() if p.requires_grad]
        if self.exchange.is_sharded and config.precision == "float16":
            raise ConfigError(
                "float16 scales the loss by whether any gradient overflows, and with sharding: fsdp no process has all "
                "gradients. Use precision: bfloat16, or sharding: none.",
                ("training", "precision"),
            )
        if not self._parameters:
            raise RegardError(f"{type(trainee.module).__name__} has no parameters to train.")
        self.precision = Precision(config.precision, device)
        self.optimizer = _optimizer(self._parameters, config)

    def __call__(
        self, batches: Sequence[tuple[LocalBatch, Any]], *, step: int, learning_rate: float, generator: Generator
    ) -> Figures:
        """Makes a step from (local batch, its tensors) pairs.

        The gradients are those of the summed loss divided by the symbols of all batches, as if they were one batch.

        Raises:
            RegardError: if the loss or a gradient is not finite, before any weight is changed.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        descriptions: list[Any] = []
        sums: list[dict[str, Tensor]] = []
        first_count: Tensor | None = None
        for number, (local, batch) in enumerate(batches, start=1):
            with self.exchange.gradient_sync(is_last=number == len(batches)), self._drawing(local, step):
                with self.precision.autocast():
                    loss = self.exchange.loss(move(batch, self._device), step=step, generator=generator)
                sums.append(self._sums(loss, local.weight))
                descriptions.append(local.description)
                if first_count is None:  # dividing by it here keeps float16 gradients small
                    first_count = processes.summed(sums[0]["count"].clone()).clamp_min(1.0)
                # Gradients become means over all processes, so the losses are multiplied by their number.
                factor = local.weight * processes.size() / first_count
                self.precision.backward(loss.total * factor.to(loss.total.dtype))
        assert first_count is not None, "a step needs a batch"
        self.precision.unscale(self.optimizer)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if len(sums) > 1:
            count = processes.summed(torch.stack([entry["count"] for entry in sums]).sum()).clamp_min(1.0)
            torch._foreach_mul_(gradients, (first_count / count).to(gradients[0].dtype))
        norm = self.exchange.norm(gradients)
        figures = _plain(sums, norm)
        if figures.skipped and not self.precision.may_overflow:
            raise _not_finite(figures, sums, descriptions, step, self._trainee)
        if self._clip_norm is not None and figures.gradient_norm > self._clip_norm:
            clip_grads_with_norm_(self._parameters, self._clip_norm, norm)
        self.precision.step(self.optimizer)
        return figures

    def state(self) -> dict[str, Any]:
        """The optimiser's state, as a single process would have it."""
        return self.exchange.gathered(self.optimizer.state_dict())

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self.optimizer.load_state_dict(self.exchange.sharded(state))

    def _drawing(self, local: LocalBatch, step: int) -> AbstractContextManager[None]:
        """The context of forward and backward passes: random draws belong to items if the trainee has `item_ids`."""
        if not isinstance(self._trainee, DivisibleTrainee):
            return drawing(None)
        items = self._trainee.item_ids(local.description).to(self._device)
        return drawing(ItemDraws(self._sites, items, seed=self._seed, step=step))

    def _sums(self, loss: Loss, weight: float) -> dict[str, Tensor]:
        values = {"loss": loss.total.detach(), "count": loss.count, **loss.metrics}
        return {name: weight * torch.as_tensor(value, device=self._device).double() for name, value in values.items()}


def _optimizer(parameters: list[torch.nn.Parameter], config: TrainingConfig) -> Optimizer:
    kind = {"adam": Adam, "adamw": AdamW}[config.optimizer]
    return kind(parameters, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True)


def _plain(sums: list[dict[str, Tensor]], norm: Tensor) -> Figures:
    """All figures, in one transfer from the device."""
    names = list(dict.fromkeys(name for entry in sums for name in entry))
    zero = torch.zeros((), dtype=torch.float64, device=norm.device)
    if processes.size() > 1:
        names.sort()  # the same order in all processes
    totals = [torch.stack([entry.get(name, zero) for entry in sums]).sum() for name in names]
    if processes.size() > 1:
        totals = list(processes.summed(torch.stack(totals)))
    *values, gradient_norm = torch.stack([*totals, norm.double()]).tolist()
    metrics = dict(zip(names, values))
    loss, count = metrics.pop("loss"), metrics.pop("count")
    finite = math.isfinite(loss) and math.isfinite(gradient_norm)
    return Figures(loss, count, metrics, gradient_norm, skipped=not finite)


def _not_finite(
    figures: Figures, sums: list[dict[str, Tensor]], descriptions: list[Any], step: int, trainee: Trainee
) -> RegardError:
    broken = [d for d, entry in zip(descriptions, sums) if not math.isfinite(entry["loss"].item())]
    is_loss = not math.isfinite(figures.loss)
    what = f"The loss is {figures.loss}" if is_loss else f"The gradient's norm is {figures.gradient_norm}"
    shown = "\n".join(f"  batch {_items(description, trainee)}" for description in broken or descriptions)
    if is_loss and not broken:
        shown = "  batch: in another process, which reports it too"
    return RegardError(
        f"{what} at step {step + 1}; the weights are those from before it.\n{shown}\n"
        "  Look at these items first. If they are correct, lower training.learning_rate, set training.clip_norm or "
        "lengthen training.warmup_steps."
    )


def _items(description: Any, trainee: Trainee) -> str:
    """The items of a batch, by file and line if the trainee knows them."""
    if not isinstance(trainee, PlacedTrainee):
        return f"{description!r:.500}"
    places = trainee.places(description)
    return f"of {len(places):,}: {', '.join(places[:SHOWN])}{', …' if len(places) > SHOWN else ''}"
