"""Gradients of location-sensitive energies by compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops import over_steps
from regard.ops.location import additive
from regard.ops.precision import without_autocast


def run(query: Tensor, keys: Tensor, past: Tensor, *weights: Tensor) -> Tensor:
    """The energies, differentiable where any input requires a gradient."""
    inputs = query, keys, past, *weights
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return _Energies.apply(*inputs)  # type: ignore[no-untyped-call]
    return _kernels().energies(*inputs)


def run_in_loop(loop: over_steps.Loop, query: Tensor, keys: Tensor, past: Tensor, *weights: Tensor) -> Tensor:
    """The energies of a step."""
    shared = loop.shared(SharedLocation, keys, *weights)
    energies: Tensor = over_steps.apply(_InLoop, shared, query, past, *shared.handles)
    return energies


def _kernels() -> Any:
    return import_module("regard.ops.location.numba")


class _Energies(torch.autograd.Function):
    """Keeps only the inputs; a second derivative is that of the plain operations."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return _kernels().energies(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if not torch.is_grad_enabled():
            return _kernels().gradients(gradient, *ctx.saved_tensors, grad_past=ctx.needs_input_grad[2])
        # create_graph: kernels leave no graph of the gradients, torch's own operations do
        return torch.func.vjp(additive.location_energies, *ctx.saved_tensors)[1](gradient)


class SharedLocation(over_steps.Shared):
    """Keys, filters, their projection and v of all steps of a loop."""

    def __init__(self, *memory: Tensor) -> None:
        super().__init__(memory, _sums)
        self.memory = [x.detach() for x in memory]
        self._steps: dict[int, Any] = {}

    def steps(self, hypotheses: int) -> Any:
        """What computes their energies, for so many rows a sentence."""
        if hypotheses not in self._steps:
            self._steps[hypotheses] = self.new_steps(hypotheses)
        return self._steps[hypotheses]

    def new_steps(self, hypotheses: int) -> Any:
        """The same, with sums of gradients of its own."""
        return _kernels().Steps(*self.memory, hypotheses)


def _sums(kept: Sequence[Any]) -> Sequence[Tensor]:
    each = [(steps.grad_keys, *steps.convolution.gradients(), steps.grad_v) for steps in kept]  # by number of rows
    return [reduce(torch.add, sums) for sums in zip(*each, strict=True)]


class _InLoop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shared: SharedLocation, query: Tensor, past: Tensor, *memory: Tensor) -> Tensor:
        ctx.uses, ctx.new_steps = shared.uses, shared.new_steps
        ctx.save_for_backward(query, memory[0], past, *memory[1:])
        with without_autocast("cpu"):
            out = query.new_empty(*query.shape[:3], memory[0].shape[1])
            shared.steps(query.shape[1]).energies(query, past, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        query, _, past = ctx.saved_tensors[:3]
        if torch.is_grad_enabled():
            of_query, of_keys, of_past, *others = torch.func.vjp(additive.location_energies, *ctx.saved_tensors)[1](
                gradient
            )
            return None, of_query, of_past, of_keys, *others
        kept, hypotheses = ctx.uses.kept, query.shape[1]
        steps = next((one for one in kept if one.hypotheses == hypotheses), None)
        if steps is None:
            kept.append(steps := ctx.new_steps(hypotheses))
        grad_query = torch.empty(query.shape, dtype=query.dtype)
        grad_past = torch.empty(past.shape, dtype=past.dtype) if ctx.needs_input_grad[2] else None
        with without_autocast("cpu"):
            steps.gradients(gradient, query, past, grad_query, grad_past)
        return None, grad_query, grad_past, *(None,) * 4
