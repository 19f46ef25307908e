"""An optimiser step: gradients of its batches, clipping, and the update of the weights; recorded on a GPU."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional
from torch.nn.utils import clip_grads_with_norm_

from regard import tree
from regard.config.schema import TrainingConfig
from regard.errors import ConfigError, RegardError, UnsupportedError
from regard.layers.items import ItemDraws, drawing, sites
from regard.ops.recording import Recordings, graphs
from regard.shapes import trusted
from regard.training import processes
from regard.training.accumulation import LocalBatch
from regard.training.device import move
from regard.training.exchange import Exchange
from regard.training.optimizers import optimizer_of
from regard.training.precision import Precision, weights_of_products
from regard.training.trainee import DivisibleTrainee, Loss, PlacedTrainee, RecordableTrainee, Trainee

SHOWN = 8
"""The largest number of items of a batch that a message lists."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a step, as plain numbers.

    Args:
        loss: the sum over the real symbols of all batches.
        count: the number of those symbols.
        metrics: further sums, by name.
        gradient_norm: of all parameters, before clipping.
        skipped: whether loss or gradients were not finite, so that the weights were not changed.
    """

    loss: float
    count: float
    metrics: dict[str, float]
    gradient_norm: float
    skipped: bool


class Stepper:
    """Optimiser steps: forward and backward passes, division by the number of real symbols, clipping, the update.

    Several processes make a step together, each with its parts of the batches, equal to that of a single process up to
    rounding.

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
                "float16 adapts the scale of the loss to overflowing gradients, and with sharding: fsdp no process has "
                "all gradients. Use precision: bfloat16, or sharding: none.",
                ("training", "precision"),
            )
        if self.exchange.is_sharded and config.optimizer == "muon":
            raise ConfigError(
                "muon needs the whole gradient of a matrix, and with sharding: fsdp no process has it. Use optimizer: "
                "adamw, or sharding: none.",
                ("training", "optimizer"),
            )
        if not self._parameters:
            raise RegardError(f"{type(trainee.module).__name__} has no parameters to train.")
        # DDP and FSDP need the gradient of each weight, and torch.compile plans its own conversions
        is_whole = processes.size() == 1 and not getattr(config, "compile", False)
        weights = weights_of_products(trainee.module) if is_whole else ()
        self.precision = Precision(config.precision, device, weights)
        self.optimizer = optimizer_of(trainee.module, config, capturable=device.type == "cuda")
        # why some or all steps are not recorded; None if all are
        self.unrecorded = self._unrecorded(config)
        self._recordings = Recordings(graphs()) if self.unrecorded is None else None
        self._names: dict[Hashable, list[str]] = {}
        self._pending: list[_Pending] = []
        # set by the first non-finite step, after which recorded steps change no weight
        self._broken = torch.zeros((), device=device)

    def __call__(
        self, batches: Sequence[tuple[LocalBatch, Any]], *, step: int, learning_rate: float, generator: Generator
    ) -> list[Figures]:
        """Makes a step from pairs of a local batch and its tensors.

        The gradients are those of the summed loss divided by the symbols of all batches, as if they were one batch.

        Args:
            step: the number of steps made before.

        Returns:
            The figures of recorded steps before it and of this step; empty for a recorded step (`read`).

        Raises:
            RegardError: if the loss or a gradient is not finite, before any weight is changed.
        """
        trainee, descriptions = self._trainee, [local.description for local, _ in batches]
        weights = [local.weight for local, _ in batches]
        if self._recordings is not None and isinstance(trainee, RecordableTrainee):
            try:
                program = trainee.program(step)
            except UnsupportedError as error:
                self.unrecorded = str(error)
            else:
                inputs = self._inputs(trainee, batches, step, learning_rate)
                self._record(program, inputs, generator, step, descriptions)
                return []
        before = self.read()
        with trusted() if self._device.type != "cpu" else nullcontext():
            moved = ((move(batch, self._device), self._items(local)) for local, batch in batches)
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate
            sums, _, norm = self._gradients(moved, weights, step, step, generator)
            names, stacked = _stacked(sums, norm)
            figures = _figures(names, stacked.tolist())
            if figures.skipped and not self.precision.may_overflow:
                raise _not_finite(figures, sums, descriptions, step, trainee)
            if self._clip_norm is not None and figures.gradient_norm > self._clip_norm:
                clip_grads_with_norm_(self._parameters, self._clip_norm, norm)
            self.precision.step(self.optimizer)
            self.precision.check()
        return [*before, figures]

    def read(self) -> list[Figures]:
        """The figures of the recorded steps since the last call, in order; waits for the device.

        Raises:
            RegardError: if a loss or a gradient was not finite; the weights are those before that step.
        """
        pending, self._pending = self._pending, []
        if not pending:
            return []
        rows = torch.cat([one.figures for one in pending]).tolist()
        results: list[Figures] = []
        for one in pending:
            values, rows = rows[: len(one.figures)], rows[len(one.figures) :]
            figures = _figures(one.names, values)
            if figures.skipped and not self.precision.may_overflow:
                raise _not_finite(figures, [], one.descriptions, one.step, self._trainee)
            results.append(figures)
        self.precision.check()
        return results

    def _gradients(
        self,
        batches: Iterable[tuple[Any, Tensor | None]],
        weights: Sequence[float],
        step: int,
        draws: int | Tensor,
        generator: Generator,
    ) -> tuple[list[dict[str, Tensor]], list[Tensor], Tensor]:
        """The sums of the batches, all gradients (of the mean loss), and their norm.

        Args:
            batches: on the device, with the items of their rows.
            draws: the step number of random draws; a tensor in a recorded step.
        """
        self.optimizer.zero_grad(set_to_none=True)
        sums: list[dict[str, Tensor]] = []
        first_count: Tensor | None = None
        for number, ((batch, items), weight) in enumerate(zip(batches, weights, strict=True), start=1):
            drawn = None if items is None else ItemDraws(self._sites, items, seed=self._seed, step=draws)
            with self.exchange.gradient_sync(is_last=number == len(weights)), drawing(drawn):
                with self.precision.autocast():
                    loss = self.exchange.loss(batch, step=step, generator=generator)
                sums.append(self._sums(loss, weight))
                if first_count is None:  # dividing by it here keeps float16 gradients small
                    first_count = processes.summed(sums[0]["count"].clone()).clamp_min(1.0)
                # gradients are averaged over processes, so losses are multiplied by their number
                factor = weight * processes.size() / first_count
                self.precision.backward(loss.total * factor.to(loss.total.dtype))
        assert first_count is not None, "a step needs a batch"
        self.precision.unscale(self.optimizer)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if len(sums) > 1:
            count = processes.summed(torch.stack([entry["count"] for entry in sums]).sum()).clamp_min(1.0)
            torch._foreach_mul_(gradients, (first_count / count).to(gradients[0].dtype))
        return sums, gradients, self.exchange.norm(gradients)

    def _inputs(
        self,
        trainee: RecordableTrainee,
        batches: Sequence[tuple[LocalBatch, Any]],
        step: int,
        learning_rate: float,
    ) -> dict[str, Any]:
        """The inputs of a recorded step, on the device, with sizes on the grid."""
        parts = []
        for local, batch in batches:
            whole, items = trainee.padded(batch), trainee.item_ids(local.description)
            before, rows = (len(next(tree.leaves(x))) for x in (batch, whole))
            parts.append((whole, functional.pad(items, (0, (rows - before) * len(items) // before))))
        numbers = torch.tensor(learning_rate), torch.tensor(step)
        inputs: dict[str, Any] = move({"batches": tuple(parts), "numbers": numbers}, self._device)
        return inputs

    def _record(
        self, program: Hashable, inputs: dict[str, Any], generator: Generator, step: int, descriptions: list[Any]
    ) -> None:
        """Makes a recorded step, which does not wait for the device."""
        assert self._recordings is not None
        form = program, tuple((x.shape, x.dtype) for x in tree.leaves(inputs))

        def make(inputs: dict[str, Any]) -> Tensor:
            rate, draws = inputs["numbers"]
            with trusted():
                weights = [1.0] * len(inputs["batches"])
                sums, gradients, norm = self._gradients(inputs["batches"], weights, step, draws, generator)
                self._names[form], stacked = _stacked(sums, norm)
                self._update(gradients, norm, torch.isfinite(stacked).all(), rate)
            return stacked

        figures = self._recordings.call(form, inputs, make).clone()
        self.unrecorded = self._recordings.failures.get(form, self.unrecorded)
        self._pending.append(_Pending(self._names[form], figures, step, descriptions))

    def _update(self, gradients: list[Tensor], norm: Tensor, is_finite: Tensor, rate: Tensor) -> None:
        """Clipping and the optimiser without branches: after a non-finite step no weight changes."""
        if self._clip_norm is not None:
            factor = torch.where(norm > self._clip_norm, self._clip_norm / (norm + 1e-6), 1.0)
            torch._foreach_mul_(gradients, factor.to(gradients[0].dtype))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if not self.precision.may_overflow:
            self._broken.copy_(torch.maximum(self._broken, (~is_finite).float()))
            self.optimizer.found_inf = self._broken  # type: ignore[attr-defined]
        self.precision.step(self.optimizer)

    def state(self) -> dict[str, Any]:
        """The optimiser's state as of a single process, with learning rates as numbers."""
        state = self.optimizer.state_dict()
        groups = [{**group, "lr": float(group["lr"])} for group in state["param_groups"]]
        return self.exchange.gathered({**state, "param_groups": groups})

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self.optimizer.load_state_dict(self.exchange.sharded(state))
        for group in self.optimizer.param_groups:  # the state may come from a CPU
            if "capturable" in group:
                group["capturable"] = self._device.type == "cuda"

    def _items(self, local: LocalBatch) -> Tensor | None:
        """The items of a batch's rows, to which random draws belong, if the trainee has `item_ids`."""
        if not isinstance(self._trainee, DivisibleTrainee):
            return None
        return self._trainee.item_ids(local.description).to(self._device)

    def _unrecorded(self, config: TrainingConfig) -> str | None:
        """Why no step is recorded, or None."""
        if (reason := unrecorded(config)) is not None:
            return reason
        if self._device.type != "cuda":
            return "steps are recorded on a GPU"
        if processes.size() > 1:
            return "several processes exchange gradients during a step"
        if not isinstance(self._trainee, RecordableTrainee):
            return f"{type(self._trainee).__name__} lacks methods of regard.training.RecordableTrainee"
        return None

    def _sums(self, loss: Loss, weight: float) -> dict[str, Tensor]:
        values = {"loss": loss.total.detach(), "count": loss.count, **loss.metrics}
        return {name: weight * torch.as_tensor(value, device=self._device).double() for name, value in values.items()}


def unrecorded(config: TrainingConfig) -> str | None:
    """Why no step of a training by this configuration is recorded on a GPU, or None."""
    if config.graphs == "none":
        return "training.graphs is none"
    if config.optimizer == "muon":
        return "training.optimizer is muon"
    return "training.compile compiles the loss" if config.compile else None


@dataclass(frozen=True, slots=True)
class _Pending:
    """A recorded step whose figures have not been read."""

    names: list[str]
    figures: Tensor
    step: int
    descriptions: list[Any]


def _stacked(sums: list[dict[str, Tensor]], norm: Tensor) -> tuple[list[str], Tensor]:
    """The names of all sums, and the sums over batches and processes, followed by the norm of the gradient."""
    names = list(dict.fromkeys(name for entry in sums for name in entry))
    zero = torch.zeros((), dtype=torch.float64, device=norm.device)
    if processes.size() > 1:
        names.sort()  # the same order in all processes
    totals = [torch.stack([entry.get(name, zero) for entry in sums]).sum() for name in names]
    if processes.size() > 1:
        totals = list(processes.summed(torch.stack(totals)))
    return names, torch.stack([*totals, norm.double()])


def _figures(names: list[str], values: list[float]) -> Figures:
    metrics = dict(zip(names, values))
    loss, count, gradient_norm = metrics.pop("loss"), metrics.pop("count"), values[-1]
    finite = math.isfinite(loss) and math.isfinite(gradient_norm)
    return Figures(loss, count, metrics, gradient_norm, skipped=not finite)


def _not_finite(
    figures: Figures, sums: list[dict[str, Tensor]], descriptions: list[Any], step: int, trainee: Trainee
) -> RegardError:
    broken = [d for d, entry in zip(descriptions, sums) if not math.isfinite(entry["loss"].item())]
    is_loss = not math.isfinite(figures.loss)
    fault = f"The loss is {figures.loss}" if is_loss else f"The gradient's norm is {figures.gradient_norm}"
    shown = "\n".join(f"  batch {_items(description, trainee)}" for description in broken or descriptions)
    if is_loss and not broken and processes.size() > 1:
        shown = "  batch: in another process, which reports it too"
    return RegardError(
        f"{fault} at step {step + 1}; the weights are those before it.\n{shown}\n"
        "  Look at these items first. If they are correct, lower training.learning_rate, set training.clip_norm or "
        "lengthen training.warmup_steps."
    )


def _items(description: Any, trainee: Trainee) -> str:
    """The items of a batch, by file and line if the trainee has `places`."""
    if not isinstance(trainee, PlacedTrainee):
        return f"{description!r:.500}"
    places = trainee.places(description)
    return f"of {len(places):,}: {', '.join(places[:SHOWN])}{', …' if len(places) > SHOWN else ''}"
