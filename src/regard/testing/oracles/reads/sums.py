"""Weighted sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.attention import ProjectedSum, WeightedSum
from regard.testing.oracles.arithmetic import head_slice, linear
from regard.testing.oracles.story import Matrix, Story, Vector, oracle


def weighted_sum(weights: Vector, values: Matrix, size: int) -> Vector:
    """c = Σ_j α_j h_j.

    >>> weighted_sum([0.5, 2.0], [[1.0, 0.0], [0.0, 3.0]], 2)
    [0.5, 6.0]
    """
    return [sum(weights[j] * values[j][m] for j in range(len(values))) for m in range(size)]


@oracle(WeightedSum)
def plain(read: Any, story: Story, weights: Sequence[Vector]) -> Vector:
    """The concatenated sums of the heads, each of all of h_j or of the head's slice."""
    context: Vector = []
    split = read.num_heads > 1
    width = read.context_size // len(weights)
    for head, head_weights in enumerate(weights):
        values = [head_slice(h, head, read.num_heads) if split else h for h in story.memory]
        context += weighted_sum(head_weights, values, width)
    return context


@oracle(ProjectedSum)
def projected(read: Any, story: Story, weights: Sequence[Vector]) -> Vector:
    """W_o of the heads' sums of W_v h_j, with W_v of the head's group; zeros without weights."""
    if not any(any(head_weights) for head_weights in weights):
        return [0.0] * read.context_size
    joined: Vector = []
    for head, head_weights in enumerate(weights):
        groups = read.num_key_value_heads
        shared = head * groups // read.num_heads
        values = [head_slice(linear(read.value_projection, h), shared, groups) for h in story.memory]
        joined += weighted_sum(head_weights, values, read.value_projection.out_features // groups)
    return linear(read.output_projection, joined)
