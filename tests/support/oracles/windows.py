"""The support, prior and gain of windows, position by position."""

from __future__ import annotations

import math
from typing import Any

from regard.attention import (
    ArgmaxWindow,
    BucketBiasWindow,
    CausalWindow,
    ForwardPriorWindow,
    FullWindow,
    InEvaluation,
    Intersection,
    LinearBiasWindow,
    PredictiveWindow,
    SlidingWindow,
)
from support.oracles.arithmetic import dot, head_slice, linear, sigmoid
from support.oracles.story import Seen, Story, Vector, ask, oracle


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


@oracle(PredictiveWindow)
def predictive(window: Any, story: Story) -> Seen:
    """|j - p| ≤ D and the gain exp(-(j - p)² / 2σ²), σ = D / 2, p = S · σ(vᵀ tanh(W q))."""
    head = story.head if window.num_heads > 1 else 0
    hidden = [math.tanh(x) for x in linear(window.query_projection, story.query)]
    predicted = dot(window.v[head].tolist(), head_slice(hidden, head, window.num_heads))
    place = story.num_positions * sigmoid(predicted)
    width = window.reach / 2
    allowed, gain = [], []
    for j in range(story.num_positions):
        allowed.append(abs(j - place) <= window.reach)
        gain.append(math.exp(-((j - place) ** 2) / (2 * width**2)))
    return Seen(allowed, gain=gain)


def slopes(num_heads: int) -> Vector:
    """2^{-8h/n} for n a power of two; else those of the power below n, then every second one of the power above.

    >>> slopes(3)
    [0.0625, 0.00390625, 0.25]
    """
    power = 2 ** math.floor(math.log2(num_heads))
    if power == num_heads:
        return [2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)]
    return slopes(power) + slopes(2 * power)[::2][: num_heads - power]


@oracle(LinearBiasWindow)
def linear_bias(window: Any, story: Story) -> Seen:
    """-m_h |i - j|."""
    slope = slopes(window.num_heads)[story.head if window.num_heads > 1 else 0]
    distances = [abs(story.step - j) for j in range(story.num_positions)]
    return Seen([True] * story.num_positions, [-slope * distance for distance in distances])


def bucket(offset: int, num_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """A bucket for each small distance, then logarithmic ranges; the other direction has the second half.

    >>> [bucket(-distance, 8, 64, False) for distance in (0, 3, 4, 7, 8, 33, 999)]
    [0, 3, 4, 4, 5, 7, 7]
    """
    begin = 0
    if bidirectional:
        num_buckets //= 2
        begin = num_buckets if offset > 0 else 0
    distance = abs(offset) if bidirectional else max(-offset, 0)
    exact = num_buckets // 2
    if distance < exact:
        return begin + distance
    logarithm = math.log(distance / exact) / math.log(max_distance / exact) * (num_buckets - exact)
    return begin + min(exact + math.floor(logarithm + 1e-12), num_buckets - 1)


@oracle(BucketBiasWindow)
def bucket_bias(window: Any, story: Story) -> Seen:
    """b of the bucket of j - i."""
    biases = window.biases.tolist()
    column = story.head if window.num_heads > 1 else 0
    prior = [
        biases[bucket(j - story.step, len(biases), window.max_distance, window.bidirectional)][column]
        for j in range(story.num_positions)
    ]
    return Seen([True] * story.num_positions, prior)


def moves(reach: int, alpha: float, beta: float) -> Vector:
    """C(n, k) Π_{i<k} (α + i) Π_{i<n-k} (β + i) / Π_{i<n} (α + β + i).

    >>> [round(p, 2) for p in moves(2, 1.0, 1.0)]
    [0.33, 0.33, 0.33]
    """
    denominator = math.prod(alpha + beta + i for i in range(reach))
    return [
        math.comb(reach, k)
        * math.prod(alpha + i for i in range(k))
        * math.prod(beta + i for i in range(reach - k))
        / denominator
        for k in range(reach + 1)
    ]


@oracle(ForwardPriorWindow)
def forward_prior(window: Any, story: Story) -> Seen:
    """log Σ_k P_k α_{j-k}, not below the floor."""
    start = [float(j == 0) for j in range(story.num_positions)]
    previous = story.weights[-1] if story.weights else start
    probabilities = moves(len(window.probabilities) - 1, window.alpha, window.beta)
    prior = []
    for j in range(story.num_positions):
        mass = sum(p * previous[j - k] for k, p in enumerate(probabilities) if k <= j)
        prior.append(math.log(max(mass, window.floor)))
    return Seen([True] * story.num_positions, prior)
