"""Windows that reach a fixed number of positions before and after a centre, and windows of windows."""

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
    """p - back ≤ j ≤ p + front, p from the last weights that were not all zero; `first` if there were none.

    p is their first maximum, or their median; with `first=-1` it is 0 after the first weights.
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
    """In evaluation as the window; in training everything."""
    return Seen([True] * story.num_positions) if window.training else ask(window.window, story)


@oracle(Intersection)
def intersection(window: Any, story: Story) -> Seen:
    """The positions that all of them allow; log priors are added, gains multiplied."""
    allowed = [True] * story.num_positions
    prior, gain = [0.0] * story.num_positions, [1.0] * story.num_positions
    for part in window.windows:
        seen = ask(part, story)
        allowed = [a and b for a, b in zip(allowed, seen.allowed, strict=True)]
        prior = [a + b for a, b in zip(prior, seen.prior or [0.0] * len(prior), strict=True)]
        gain = [a * b for a, b in zip(gain, seen.gain or [1.0] * len(gain), strict=True)]
    return Seen(allowed, prior, gain)


def around(centre: int, back: int | None, front: int | None, num_positions: int) -> list[bool]:
    """centre - back ≤ j ≤ centre + front, without a limit where None."""
    return [
        (back is None or j >= centre - back) and (front is None or j <= centre + front) for j in range(num_positions)
    ]
