"""Kernels of forward attention; the equations are in `regard.ops.attend.forward`.

Rows are (B, H, S) of a step, and time comes first in buffers of all steps. Threads share the rows (`start` to `stop`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.ops.compiled import called, compiled


@called
def move_row(support: Any, tiny: Any, u: Any, a: Any, m: Any, energies: Any) -> None:
    """Adds log m to the energies of a row's head; support (S,) or empty. Where nothing can be reached m is 0."""
    positions, zero = len(a), tiny - tiny
    reached, before = False, zero
    for s in range(positions):
        p = a[s] - u * a[s] + u * before
        before = a[s]
        m[s] = zero if p < tiny else p
        if not p < tiny and (len(support) == 0 or support[s]):
            reached = True
    if reached:
        for s in range(positions):
            energies[s] = -math.inf if m[s] == zero else energies[s] + math.log(m[s])
    else:
        for s in range(positions):
            m[s] = zero


@called
def keep_row(alpha: Any, last: Any, after: Any) -> None:
    """The weights, or as before where there are none."""
    seen = False
    for s in range(len(alpha)):
        seen |= alpha[s] != 0
    for s in range(len(alpha)):
        after[s] = alpha[s] if seen else last[s]


@compiled
def move_on(
    t: int, mask: Any, tiny: Any, kept: Any, moves: Any, reach: Any, weights: Any, start: int, stop: int
) -> None:
    """Adds log m to the energies `weights[t]`, and keeps m in `reach[t]`; a and u are `kept[t]` and `moves[t]`."""
    none = np.empty(0, np.bool_)
    for row in range(start, stop):
        support = mask[row] if len(mask) else none
        for h in range(weights.shape[2]):
            move_row(support, tiny, moves[t, row, h], kept[t, row, h], reach[t, row, h], weights[t, row, h])


@compiled
def keep(t: int, weights: Any, kept: Any, start: int, stop: int) -> None:
    """a of the next step."""
    for row in range(start, stop):
        for h in range(weights.shape[2]):
            keep_row(weights[t, row, h], kept[t, row, h], kept[t + 1, row, h])


@compiled
def move_on_backward(
    t: int,
    grad_energies: Any,
    weights: Any,
    kept: Any,
    moves: Any,
    reach: Any,
    grad_kept: Any,
    grad_moves: Any,
    start: int,
    stop: int,
) -> None:
    """From grad_z (B, H, S) to grad_u in `grad_moves[t]` and grad_a of this step in the place of the next one's."""
    heads, positions = weights.shape[2:]
    for row in range(start, stop):
        for h in range(heads):
            u, a, m, alpha = moves[t, row, h], kept[t, row, h], reach[t, row, h], weights[t, row, h]
            grad_z, grad_a = grad_energies[row, h], grad_kept[row, h]
            zero = u - u
            seen = False
            for s in range(positions):
                seen |= alpha[s] != 0
            grad_u, later = zero, zero  # grad_m of the position behind
            for n in range(positions):
                s = positions - 1 - n
                grad_m = zero if m[s] == zero else grad_z[s] / m[s]
                stays = zero if seen else grad_a[s]
                grad_a[s] = stays + grad_m - u * grad_m + u * later
                grad_u += grad_m * ((a[s - 1] if s else zero) - a[s])
                later = grad_m
            grad_moves[t, row, h] = grad_u
