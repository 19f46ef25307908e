"""What operations with gradients of their own need: second order, forward mode, and products without autocast."""

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
    """The gradients of the inputs, from those of a function's outputs, as a part of the graph (`create_graph`).

    They are partial derivatives, also where an input is computed from another: features from the matrix that a head
    shares with the embedding, or the inputs of a layer that is called twice from its weights.

    Args:
        function: the operation in torch's operations.
        inputs: its arguments, tensors or anything else.
        needs: which of them get a gradient; others get None.
        grad_outputs: of each output, or None.
    """
    # nothing but the function reads these views, so the gradients end at them
    views = [x.view_as(x) if need else x for x, need in zip(inputs, needs, strict=True)]
    pairs = [(y, grad) for y, grad in zip(function(*views), grad_outputs, strict=True) if grad is not None]
    needed = [x for x, need in zip(views, needs, strict=True) if need]
    outputs, grads = [y for y, _ in pairs], [grad for _, grad in pairs]
    results = iter(torch.autograd.grad(outputs, needed, grads, create_graph=True, allow_unused=True))
    return [next(results) if need else None for need in needs]


def apply(function: type[Function], with_tangents: type[Function], *inputs: Any) -> Any:
    """Calls the function that has `jvp`; where torch compiles, the one without, since the compiler refuses `jvp`."""
    applied = function if torch.compiler.is_compiling() else with_tangents
    return applied.apply(*inputs)


class FromOutput(Function):
    """A function whose derivative follows from its output, which is all that it keeps."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the output for the backward pass."""
        ctx.save_for_backward(output)


class FromOutputWithTangents(FromOutput):
    """The same for functions that have `jvp`."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the output for derivatives in reverse and in forward mode."""
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """A context for kernels that compute in the type of their inputs, which autocast does not change in it."""
    return torch.autocast(device, enabled=False) if autocasts(device) else nullcontext()


def autocasts(device: str) -> bool:
    """Whether autocast is on for a type of device, which may be one that has none."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
