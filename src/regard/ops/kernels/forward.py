"""Forward attention as compiled loops; the equations are in `regard.ops.forward`. Threads share the rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.kernels.compiled import compiled
from regard.ops.threads import parallel_for


def forward(
    energies: Tensor, previous: Tensor, move: Tensor, support: Tensor | None, floor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The weights, the next alignment, and m, or zeros for rows that do not use it; each (R, H, S)."""
    weights = energies.detach().clone(memory_format=torch.contiguous_format)
    after, reach = torch.empty_like(weights), torch.empty_like(weights)
    allowed = np.empty((0, 0, 0), np.bool_) if support is None else support.contiguous().numpy()
    kind = weights.numpy().dtype.type
    arguments = _array(previous), _array(move), allowed, kind(floor), np.finfo(kind).tiny, reach.numpy()
    parallel_for(_forward, (*arguments, weights.numpy(), after.numpy()), len(weights), 8 * weights.numel())
    return weights, after, reach


def backward(
    gradient: Tensor | None, of_after: Tensor | None, weights: Tensor, reach: Tensor, previous: Tensor, move: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of energies, of the previous alignment and of u, from those of the weights and the next one."""
    grad_energies, grad_previous = torch.empty_like(weights), torch.empty_like(weights)
    grad_move = torch.empty(move.shape, dtype=move.dtype)
    nothing = grad_energies[:0]
    of_results = (_array(nothing if x is None else x) for x in (gradient, of_after))
    inputs = *of_results, weights.numpy(), reach.numpy(), _array(previous), _array(move)
    results = grad_energies.numpy(), grad_previous.numpy(), grad_move.numpy()
    parallel_for(_backward, (*inputs, *results), len(weights), 8 * weights.numel())
    return grad_energies, grad_previous, grad_move


def _array(x: Tensor) -> Any:
    return x.detach().contiguous().numpy()


@compiled
def _forward(
    previous: Any,
    moves: Any,
    support: Any,
    floor: Any,
    tiny: Any,
    reach: Any,
    weights: Any,
    after: Any,
    start: int,
    stop: int,
) -> None:
    """weights: energies, overwritten with weights; without m if no position of the support is reached."""
    positions, zero = weights.shape[2], floor - floor
    for row in range(start, stop):
        for h in range(weights.shape[1]):
            u, a, m, alpha = moves[row, h], previous[row, h], reach[row, h], weights[row, h]
            group = 0 if len(support) == 0 else h % support.shape[1]  # one support for all heads, or one each
            reached, before = False, zero
            for s in range(positions):
                p = a[s] - u * a[s] + u * before + floor
                before = a[s]
                m[s] = zero if p < tiny else p
                if not p < tiny and (len(support) == 0 or support[row, group, s]):
                    reached = True
            if not reached:
                for s in range(positions):
                    m[s] = zero
            # the largest e + log m, subtracted before the exponential; NaN passes
            top = -np.inf
            for s in range(positions):
                if (len(support) == 0 or support[row, group, s]) and (not reached or m[s] != zero):
                    if reached:
                        alpha[s] += math.log(m[s])
                    top = top if alpha[s] <= top else alpha[s]
                else:
                    alpha[s] = -np.inf
            total = zero
            for s in range(positions):
                alpha[s] = zero if alpha[s] == -np.inf else math.exp(alpha[s] - top)
                total += alpha[s]
            for s in range(positions):
                alpha[s] = alpha[s] / total if total != zero else zero
                after[row, h, s] = alpha[s] if total != zero else a[s]


@compiled
def _backward(
    gradient: Any,
    of_after: Any,
    weights: Any,
    reach: Any,
    previous: Any,
    moves: Any,
    grad_energies: Any,
    grad_previous: Any,
    grad_moves: Any,
    start: int,
    stop: int,
) -> None:
    """grad_z = α (grad_α - Σ α grad_α), grad_m = grad_z / m, grad_a_n = (1 - u) grad_m_n + u grad_m_{n+1}."""
    positions = weights.shape[2]
    for row in range(start, stop):
        for h in range(weights.shape[1]):
            u, a, m, alpha = moves[row, h], previous[row, h], reach[row, h], weights[row, h]
            grad_z, grad_a = grad_energies[row, h], grad_previous[row, h]
            zero = u - u
            mean, seen = zero, False
            for s in range(positions):
                seen |= alpha[s] != zero
                grad_z[s] = zero
                if len(gradient):
                    grad_z[s] += gradient[row, h, s]
                if len(of_after):
                    grad_z[s] += of_after[row, h, s]
                mean += alpha[s] * grad_z[s]
            for s in range(positions):
                grad_z[s] = alpha[s] * (grad_z[s] - mean)
            grad_u, later = zero, zero  # grad_m of the next position
            for n in range(positions):
                s = positions - 1 - n
                grad_m = zero if m[s] == zero else grad_z[s] / m[s]
                stays = zero if seen or len(of_after) == 0 else of_after[row, h, s]
                grad_a[s] = stays + grad_m - u * grad_m + u * later
                grad_u += grad_m * ((a[s - 1] if s else zero) - a[s])
                later = grad_m
            grad_moves[row, h] = grad_u
