"""Windows that prefer some distances."""

from __future__ import annotations

import math
from typing import Any

from regard.attention import BucketBiasWindow, LinearBiasWindow
from regard.testing.oracles.story import Seen, Story, Vector, oracle


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
