"""Windows that reach so far back and so far to the front."""

from __future__ import annotations

from typing import Any

from regard.attention import ArgmaxWindow, CausalWindow, FullWindow, InEvaluation, Intersection, SlidingWindow
from regard.testing.oracles.story import Seen, Story, Vector, ask, oracle


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
    """p - back ≤ j ≤ p + front, p from the last weights that were not all zero, `first` before there were any.

    p is their first maximum, or where half of them is reached; the first weights of a window that began at -1 count as
    lying on position 0.
    """
    peak, seen = window.first, False
    for weights in story.weights:
        if max(weights, default=0.0) > 0:
            peak = 0 if window.first == -1 and not seen else _centre(weights, window.statistic)
            seen = True
    return Seen(around(peak, window.back, window.front, story.num_positions))


def _centre(weights: Vector, statistic: str) -> int:
    if statistic == "argmax":
        return weights.index(max(weights))
    reached, place = weights[0], 0
    while reached < sum(weights) / 2:
        place += 1
        reached += weights[place]
    return place


@oracle(InEvaluation)
def in_evaluation(window: Any, story: Story) -> Seen:
    """As the window in evaluation; everything in training."""
    return Seen([True] * story.num_positions) if window.training else ask(window.window, story)


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
