"""Which positions a window allows, position by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from regard.attention import ArgmaxWindow, CausalWindow, FullWindow, Intersection, SlidingWindow
from regard.testing.oracles.scores import Vector

Window = Callable[[Any, int, int, int, Sequence[Vector]], list[bool]]
"""(window, head, step, number of positions, weights of earlier steps) -> allowed (S)."""


def full(window: Any, head: int, step: int, num_positions: int, past: Sequence[Vector]) -> list[bool]:
    """All positions."""
    return [True] * num_positions


def causal(window: Any, head: int, step: int, num_positions: int, past: Sequence[Vector]) -> list[bool]:
    """j ≤ t."""
    return [j <= step for j in range(num_positions)]


def sliding(window: Any, head: int, step: int, num_positions: int, past: Sequence[Vector]) -> list[bool]:
    """t - back ≤ j ≤ t + front."""
    return _around(step, window.back, window.front, num_positions)


def argmax(window: Any, head: int, step: int, num_positions: int, past: Sequence[Vector]) -> list[bool]:
    """p - back ≤ j ≤ p + front, p the first maximum of the last weights that were not all zero, 0 before."""
    peak = 0
    for weights in past:
        if max(weights, default=0.0) > 0:
            peak = weights.index(max(weights))
    return _around(peak, window.back, window.front, num_positions)


def intersection(window: Any, head: int, step: int, num_positions: int, past: Sequence[Vector]) -> list[bool]:
    """What all of them allow."""
    parts = [WINDOWS[type(part)](part, head, step, num_positions, past) for part in window.windows]
    return [all(allowed) for allowed in zip(*parts)] if parts else [True] * num_positions


def _around(centre: int, back: int | None, front: int | None, num_positions: int) -> list[bool]:
    return [
        (back is None or j >= centre - back) and (front is None or j <= centre + front) for j in range(num_positions)
    ]


WINDOWS: dict[type, Window] = {
    ArgmaxWindow: argmax,
    CausalWindow: causal,
    FullWindow: full,
    Intersection: intersection,
    SlidingWindow: sliding,
}
"""The oracle of every window."""
