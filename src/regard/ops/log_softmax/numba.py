"""Log-probabilities in the place of the logits, a row at a time while it is in a core's cache."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from regard.ops.compiled import compiled, inlined
from regard.ops.compiled.elementary import power
from regard.ops.compiled.order import largest
from regard.ops.threads import spread

WORK = 8
"""Innermost steps of a number, its exponential included."""


def log_softmax(logits: Tensor) -> Tensor:
    """As the operation, for contiguous rows (R, N) on the CPU."""
    given = logits.numpy()
    spread(_normalise, (given,), len(given), WORK * given.size)
    return logits


@inlined
def _less(x: Any, top: Any, rest: Any) -> Any:
    """In this order: the second difference is small where the first is, and rounds little."""
    return (x - top) - rest


@compiled
def _normalise(logits: Any, start: int, stop: int) -> None:
    half = logits.dtype.type(0.5)
    for row in range(start, stop):
        x = logits[row]
        top = largest(x)
        total = half - half
        for i in range(len(x)):
            total += power(half * (x[i] - top))
        rest = logits.dtype.type(math.log(total))
        for i in range(len(x)):
            x[i] = _less(x[i], top, rest)
