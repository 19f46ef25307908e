"""The backward pass of a Transformer's sublayers, beside its matrix products.

    layer norm:  x̂ = (x - μ) / σ,  y = w x̂ + b
                 u = w grad_y,  grad_x = (u - mean(u) - x̂ mean(u x̂)) / σ
                 grad_w = Σ rows of grad_y x̂,  grad_b = Σ rows of grad_y
    relu:        grad_h where h > 0, and its sum over rows, which is the gradient of the bias

Sums over rows are those of blocks of `ROWS` rows, added up in order: they do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.threads import parallel_for

ROWS = 32
"""Rows of a block."""


def layer_norm_backward(
    grad_y: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor, residual: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, plus those that reach it by the residual connection, of w and of b.

    Args:
        grad_y, x: (M, D).
        mean, rstd: μ and 1 / σ, (M, 1).
        residual: (M, D), added to the gradient of x.
    """
    rows, size = x.shape
    count = -(-rows // ROWS)
    grad_x = torch.empty_like(x)
    sums = x.new_empty(2, count, size)
    arrays = [part.detach().numpy() for part in (grad_y, x, mean.view(-1), rstd.view(-1), weight, grad_x, sums)]
    added = grad_y if residual is None else residual
    parallel_for(_layer_norm_backward, (*arrays, added.detach().numpy(), residual is not None), count, 8 * x.numel())
    grad_weight, grad_bias = sums.sum(1).unbind()
    return grad_x, grad_weight, grad_bias


def relu_backward(grad_h: Tensor, h: Tensor, scale: float) -> Tensor:
    """Overwrites grad_h with scale · grad_h where h > 0, else 0; returns the sum of its rows.

    Args:
        grad_h, h: (M, F).
        scale: what dropout multiplied the elements by that it kept.
    """
    rows, size = h.shape
    count = -(-rows // ROWS)
    sums = h.new_empty(count, size)
    array = grad_h.numpy()
    parallel_for(_relu_backward, (array, h.numpy(), array.dtype.type(scale), sums.numpy()), count, 3 * h.numel())
    return sums.sum(0)


@compiled
def _layer_norm_backward(
    grad_y: Any,
    x: Any,
    mean: Any,
    rstd: Any,
    weight: Any,
    grad_x: Any,
    sums: Any,
    residual: Any,
    is_added: bool,
    start: int,
    stop: int,
) -> None:
    rows, size = x.shape
    kind = x.dtype.type
    zero, inverse = kind(0), kind(1) / kind(size)
    for block in range(start, stop):
        sums[0, block] = zero
        sums[1, block] = zero
        grad_w, grad_b = sums[0, block], sums[1, block]
        for row in range(block * ROWS, min((block + 1) * ROWS, rows)):
            x_row, g_row, out, added = x[row], grad_y[row], grad_x[row], residual[row]
            mu, scale = mean[row], rstd[row]
            first, second = zero, zero
            for d in range(size):
                normed = (x_row[d] - mu) * scale
                g = g_row[d]
                u = g * weight[d]
                first += u
                second += u * normed
                grad_w[d] += g * normed
                grad_b[d] += g
            first, second = first * inverse, second * inverse
            if is_added:
                for d in range(size):
                    normed = (x_row[d] - mu) * scale
                    out[d] = added[d] + scale * (g_row[d] * weight[d] - first - normed * second)
            else:
                for d in range(size):
                    normed = (x_row[d] - mu) * scale
                    out[d] = scale * (g_row[d] * weight[d] - first - normed * second)


@compiled
def _relu_backward(grad_h: Any, h: Any, scale: Any, sums: Any, start: int, stop: int) -> None:
    rows, size = h.shape
    zero = scale - scale
    for block in range(start, stop):
        total = sums[block]
        total[:] = zero
        for row in range(block * ROWS, min((block + 1) * ROWS, rows)):
            gradient, values = grad_h[row], h[row]
            for d in range(size):
                # as torch: where h is NaN the gradient passes
                g = zero if values[d] <= zero else scale * gradient[d]
                gradient[d] = g
                total[d] += g
