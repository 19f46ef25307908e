"""Compiled loops over rows of energies, in their place."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.compiled.elementary import REACH, power
from regard.ops.compiled.order import largest, rank, ranked
from regard.ops.threads import spread


def weigh(energies: Tensor, support: Tensor | None) -> Tensor:
    """Weights in the place of energies (*rows, S) without gaps; a support that broadcasts is not copied out."""
    x = energies.detach()
    if x.numel():
        rows, mask = _beside(x, support)
        given = x.view(*rows, x.shape[-1]).numpy(), mask
        spread(_weigh, (*given, 2 * REACH[given[0].dtype]), prod(rows), x.numel())
    return energies


def pull_back(gradient: Tensor, weights: Tensor) -> Tensor:
    """The gradient by energies in the place of the one by weights; both (*rows, S) without gaps."""
    if gradient.numel():
        width = gradient.shape[-1]
        given = gradient.detach().view(-1, width).numpy(), weights.detach().view(-1, width).numpy()
        spread(_pull_back, given, len(given[0]), gradient.numel())
    return gradient


def _beside(energies: Tensor, support: Tensor | None) -> tuple[tuple[int, int], Any]:
    """Rows as (how many the support tells apart, how many share each of those), and the support (·, S) or nothing."""
    if support is None:
        return (prod(energies.shape[:-1]), 1), np.empty((0, 0), np.bool_)
    shape, rows = energies.shape, (1,) * (energies.dim() - support.dim()) + support.shape[:-1]
    apart = max((axis + 1 for axis, size in enumerate(rows) if size > 1), default=0)
    beside = support.expand(*shape[:apart], *(1 for _ in shape[apart:-1]), shape[-1]).reshape(-1, shape[-1])
    return (len(beside), prod(shape[apart:-1])), beside.contiguous().numpy()


@compiled
def _weigh(energies: Any, support: Any, reach: Any, start: int, stop: int) -> None:
    """energies (A, M, S), support (A, S) or nothing; for the rows start … stop of A · M."""
    sharing, width = energies.shape[1:]
    zero = reach - reach
    one = reach / reach
    half = one / (one + one)
    lowest = -one / zero
    for row in range(start, stop):
        x = energies[row // sharing, row % sharing]
        if len(support):
            allowed, found = support[row // sharing], rank(lowest)
            for s in range(width):
                mine = rank(x[s] if allowed[s] else lowest)
                found = mine if mine > found else found
            top = ranked(found)
            if top == lowest and not allowed.any():
                x[:] = zero
                continue
            total = zero
            for s in range(width):
                y = x[s] - top
                p = zero if y < -reach else power(half * y)
                p = p if allowed[s] else zero
                x[s] = p
                total += p
            for s in range(width):
                x[s] = x[s] / total if allowed[s] else zero
        else:
            top = largest(x)
            total = zero
            for s in range(width):
                y = x[s] - top
                p = zero if y < -reach else power(half * y)
                x[s] = p
                total += p
            for s in range(width):
                x[s] /= total


@compiled
def _pull_back(gradient: Any, weights: Any, start: int, stop: int) -> None:
    """w_s (g_s - Σ w g) in the place of g; zero where w is."""
    for row in range(start, stop):
        g, w = gradient[row], weights[row]
        zero = w.dtype.type(0)
        mean = zero
        for s in range(len(g)):
            mean += w[s] * g[s] if w[s] != zero else zero
        for s in range(len(g)):
            g[s] = w[s] * (g[s] - mean) if w[s] != zero else zero
