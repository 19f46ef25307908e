"""Windows that reach so far back and so far to the front."""

from __future__ import annotations

from typing import Any

from regard.attention import ArgmaxWindow, CausalWindow, FullWindow, Intersection, SlidingWindow
from regard.testing.oracles.story import Seen, Story, ask, oracle


@oracle(FullWindow)
def full(window: Any, story: Story) -> Seen:
    """All positions."""
    return Seen([True] * story.num_positions)


@oracle(CausalWindow)
def causal(window: Any, story: Story) -> Seen:
    """j ≤ t."""
    return Seen([j <= story.step for j in range(story.num_positions)])


@oracle(SlidingWindow)
def sliding(window: Any, story: Story) -> Seen:
    """t - back ≤ j ≤ t + front."""
    return Seen(around(story.step, window.back, window.front, story.num_positions))


@oracle(ArgmaxWindow)
def argmax(window: Any, story: Story) -> Seen:
    """p - back ≤ j ≤ p + front, p the first maximum of the last weights that were not all zero, 0 before."""
    peak = 0
    for weights in story.weights:
        if max(weights, default=0.0) > 0:
            peak = weights.index(max(weights))
    return Seen(around(peak, window.back, window.front, story.num_positions))


@oracle(Intersection)
def intersection(window: Any, story: Story) -> Seen:
    """What all of them allow; priors add, gains multiply."""
    allowed = [True] * story.num_positions
    prior, gain = [0.0] * story.num_positions, [1.0] * story.num_positions
    for part in window.windows:
        seen = ask(part, story)
        allowed = [a and b for a, b in zip(allowed, seen.allowed, strict=True)]
        prior = [a + b for a, b in zip(prior, seen.prior or [0.0] * len(prior), strict=True)]
        gain = [a * b for a, b in zip(gain, seen.gain or [1.0] * len(gain), strict=True)]
    return Seen(allowed, prior, gain)


def around(centre: int, back: int | None, front: int | None, num_positions: int) -> list[bool]:
    """centre - back ≤ j ≤ centre + front, None being no limit."""
    return [
        (back is None or j >= centre - back) and (front is None or j <= centre + front) for j in range(num_positions)
    ]
