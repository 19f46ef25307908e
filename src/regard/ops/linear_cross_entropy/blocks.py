"""An output layer and its loss a block of rows at a time; the gradient is made with the loss.

    logits = x Wᵀ + b (M, N)              a block of M rows
    grad_logits (M, N)                    in the place of the logits, by `turn`
    grad_x = grad_logits W (M, D),  grad_W += grad_logitsᵀ x (N, D),  grad_b += Σ rows of grad_logits (N)

A block of logits stays in the processor's last cache from the first product to the last. The gradients of the sum of
losses are complete when the sum is; the backward pass multiplies them by the gradient of the loss.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.ops import second_order
from regard.ops.linear import linear, outer
from regard.ops.linear.shared import PackedProduct
from regard.ops.linear_cross_entropy import reference

BLOCK_ELEMENTS = 5 << 18
"""Numbers of a block of logits; with fewer, the weight and its gradient are read too often."""
MIN_ROWS = 64
"""Rows of a block: products of fewer would be slow."""

_keeps_graph: Any = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
"""Whether a backward pass may be followed by another through the same graph (retain_graph)."""

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]
"""Of features, weight and bias, where they are needed."""


def linear_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    mask: Tensor | None = None,
    never: Tensor | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """As the operation; masked rows are left out first."""
    features, targets = features.flatten(0, -2), targets.flatten()
    if mask is not None and not bool(mask.all()):
        # masked rows cost neither products nor memory
        real = mask.flatten().nonzero()[:, 0]
        features, targets = features.index_select(0, real), targets[real]
    if len(targets) == 0:
        return reference.linear_cross_entropy(features, weight, bias, targets, smoothing=smoothing)
    _check(targets, len(weight))
    inputs = (features, weight, bias, targets, never, smoothing)
    if torch.is_grad_enabled():
        loss, likelihood = _Loss.apply(*inputs)  # type: ignore[no-untyped-call]
    else:
        loss, likelihood, _ = _in_blocks((False, False, False), *inputs)
    return loss, likelihood


class _Loss(torch.autograd.Function):
    """Makes the gradients with the loss; the backward pass scales them. Second derivatives are the formula's."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        loss, likelihood, gradients = _in_blocks(ctx.needs_input_grad[:3], *inputs)
        *tensors, ctx.smoothing = inputs
        ctx.save_for_backward(*gradients, *tensors)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> Any:
        saved = ctx.saved_tensors  # read once: a checkpoint makes them anew for each reading
        gradients, inputs = saved[:3], saved[3:]
        if torch.is_grad_enabled():
            # create_graph: the formula in torch's operations, whose gradients can be differentiated again
            def loss(features: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor]:
                targets, never = inputs[3:]
                return reference.linear_cross_entropy(
                    features, weight, bias, targets, never=never, smoothing=ctx.smoothing
                )[:1]

            results = second_order.gradients(loss, inputs[:3], ctx.needs_input_grad[:3], [grad_loss])
        else:
            # in place where no other pass will read them: the weight's gradient is as large as the weight
            multiply = torch.mul if _keeps_graph() else Tensor.mul_
            results = [None if gradient is None else multiply(gradient, grad_loss) for gradient in gradients]
        return *results, None, None, None


def _in_blocks(
    needed: tuple[bool, bool, bool],
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    never: Tensor | None,
    smoothing: float,
) -> tuple[Tensor, Tensor, Gradients]:
    """The loss, the negative log-likelihood, and the gradients of the loss."""
    kernels = import_module("regard.ops.linear_cross_entropy.numba")
    of_features, of_weight, of_bias = needed
    silent = targets[:0] if never is None else never.nonzero()[:, 0]
    count, num_tokens = len(features), len(weight)
    # as many rows as `BLOCK_ELEMENTS` allows, a multiple of `MIN_ROWS`; W is packed when several blocks use it
    rows = min(max(MIN_ROWS, BLOCK_ELEMENTS // num_tokens // MIN_ROWS * MIN_ROWS), count)
    multiply = PackedProduct(weight) if rows < count else partial(linear, weight=weight)
    grad_weights: list[Tensor] = []
    grad_bias = weight.new_zeros(num_tokens) if of_bias else None
    grad_features: list[Tensor] = []
    # of every row, added up at the end, so that the loss does not depend on which thread took a row
    sums = torch.zeros(count, 2, dtype=torch.float64)

    def take(x: Tensor, ids: Tensor, block_sums: Tensor) -> None:
        logits = multiply(x, bias=bias)
        # from here on `logits` holds their gradient
        kernels.turn(logits, ids, silent, smoothing, block_sums, any(needed))
        if of_features:
            grad_features.append(linear(logits, weight.t()))
        if of_weight:
            # the first block's gradient is the buffer of the sum
            part = outer(logits, x)
            if grad_weights:
                grad_weights[0].add_(part)
            else:
                grad_weights.append(part)
        if grad_bias is not None:
            grad_bias.add_(logits.sum(0))

    for start in range(0, count, rows):
        block = slice(start, start + rows)
        take(features[block], targets[block], sums[block])
    likelihood, uniform = sums.sum(0).to(features.dtype).unbind()
    loss = likelihood.clone() if smoothing == 0.0 else (1 - smoothing) * likelihood + smoothing * uniform
    # of one block its own tensor, without a copy
    grad_all = grad_features[0] if len(grad_features) == 1 else torch.cat(grad_features) if of_features else None
    return loss, likelihood, (grad_all, grad_weights[0] if of_weight else None, grad_bias)


def _check(targets: Tensor, num_tokens: int) -> None:
    least, most = (int(x) for x in targets.aminmax())
    if least < 0 or most >= num_tokens:
        raise ShapeError(
            f"targets must lie between 0 and N - 1, N={num_tokens}; got {least} to {most}. "
            "Is the output layer made for another vocabulary?"
        )
