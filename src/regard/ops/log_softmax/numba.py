"""Log-probabilities in the place of the logits, a row at a time while it is in a core's cache.

    top = max_n x_n,  total = Σ_n e^{x_n - top},  rest = log total,  log p_n = (x_n - top) - rest

Written over x; without autograd.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from regard.ops.compiled import compiled, inlined
from regard.ops.compiled.elementary import power
from regard.ops.compiled.order import largest
from regard.ops.threads import parallel_for

WORK_PER_ELEMENT = 8
"""Innermost steps that a number counts for, its exponential included."""


def log_softmax(logits: Tensor) -> Tensor:
    """As the operation, for contiguous rows (R, N) on the CPU."""
    rows = logits.numpy()
    parallel_for(_normalise, (rows,), len(rows), WORK_PER_ELEMENT * rows.size)
    return logits


@inlined
def _less(x: Any, top: Any, rest: Any) -> Any:
    """In this order: x - top is near 0 for likely tokens and rounds little; top + rest would round to top's digits.

    A function of its own, as a kernel may reorder sums and this may not.
    """
    return (x - top) - rest


@compiled
def _normalise(logits: Any, start: int, stop: int) -> None:
    half = logits.dtype.type(0.5)
    for row in range(start, stop):
        x = logits[row]
        top = largest(x)  # NaN where there is one, which makes the row NaN
        # e^y = power(y / 2), as `power` is e^{2x}
        total = half - half
        for i in range(len(x)):
            total += power(half * (x[i] - top))
        rest = logits.dtype.type(math.log(total))  # one logarithm a row
        for i in range(len(x)):
            x[i] = _less(x[i], top, rest)
