"""Tools of operations with their own gradients: second order, forward mode, contexts without autocast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


def second_order_gradients(
    function: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Any],
    needs: Sequence[bool],
    grad_outputs: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """The gradients of a function's inputs, from those of its outputs, as a part of the graph (`create_graph`).

    They are partial derivatives, also if one input is computed from another, as features are from the matrix that a
    head shares with the embedding.

    Args:
        function: in torch's operations.
        inputs: its arguments, tensors or others.
        needs: which of them get a gradient; the others get None.
        grad_outputs: of each output, or None.
    """
    # only the function reads these views, so gradients end at them
    views = [x.view_as(x) if need else x for x, need in zip(inputs, needs, strict=True)]
    pairs = [(y, grad) for y, grad in zip(function(*views), grad_outputs, strict=True) if grad is not None]
    needed = [x for x, need in zip(views, needs, strict=True) if need]
    outputs, grads = [y for y, _ in pairs], [grad for _, grad in pairs]
    results = iter(torch.autograd.grad(outputs, needed, grads, create_graph=True, allow_unused=True))
    return [next(results) if need else None for need in needs]


def apply(function: type[Function], with_tangents: type[Function], *inputs: Any) -> Any:
    """Applies the function with `jvp`; under torch.compile, which does not support `jvp`, the one without."""
    applied = function if torch.compiler.is_compiling() else with_tangents
    return applied.apply(*inputs)


class FromOutput(Function):
    """A function whose derivative follows from its output; only the output is saved."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Saves the output for the backward pass."""
        ctx.save_for_backward(output)


class FromOutputWithTangents(FromOutput):
    """The same for functions with `jvp`."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Saves the output for reverse and forward mode."""
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """A context without autocast, for operations that compute in the type of their inputs."""
    return torch.autocast(device, enabled=False) if autocasts(device) else nullcontext()


def autocasts(device: str) -> bool:
    """Whether autocast is on for a type of device; False for devices that do not support it."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
