"""Gradients that are a part of the graph (`create_graph`), for operations whose kernels leave none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def gradients(
    function: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Any],
    needs: Sequence[bool],
    grad_outputs: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """The gradients of the inputs, from those of a function's outputs; they can be differentiated again.

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
