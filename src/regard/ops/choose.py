"""Which implementation of an operation is taken, and why the others were not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to compute an operation.

    Args:
        name: the algorithm's name: reference, parallel, numba, triton.
        function: computes it.
        refuse: says why it cannot take some inputs, or None when it can; without inputs, whether it is here at all.
    """

    name: str
    function: Callable[..., Any]
    refuse: Callable[..., str | None] = lambda *inputs, **options: None


def choose(implementations: tuple[Implementation, ...], *inputs: Any, **options: Any) -> Implementation:
    """The first implementation that does not refuse; the last one, the reference, never does."""
    return next(one for one in implementations if one.refuse(*inputs, **options) is None)


def describe(operation: str, implementations: tuple[Implementation, ...], *inputs: Any, **options: Any) -> str:
    """Every implementation in order, with what was taken and why others were not."""
    taken = choose(implementations, *inputs, **options)
    lines = []
    for one in implementations:
        reason = one.refuse(*inputs, **options)
        state = "taken" if one is taken else f"refused: {reason}" if reason else "not needed"
        lines.append(f"  {one.name}: {state}")
    return "\n".join([operation, *lines])
