"""Contexts from weights, position by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.attention import DroppedRead, GatedSum, ProjectedSum, RelativeSum, WeightedSum
from support.oracles.arithmetic import head_slice, linear, sigmoid
from support.oracles.scores.offset import offset_vector
from support.oracles.story import Matrix, Story, Vector, ask, oracle


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


@oracle(GatedSum)
def gated(read: Any, story: Story, weights: Sequence[Vector]) -> Vector:
    """σ(W q + b) times the sums: a gate for each feature, or for all features of a head."""
    context: Vector = ask(read.sum, story, weights)
    gates = [sigmoid(x) for x in linear(read.gate, story.query)]
    return [x * gates[index * len(gates) // len(context)] for index, x in enumerate(context)]


@oracle(DroppedRead)
def dropped(read: Any, story: Story, weights: Sequence[Vector]) -> Vector:
    """In evaluation, the context of the other read."""
    context: Vector = ask(read.values, story, weights)
    return context


@oracle(RelativeSum)
def relative(read: Any, story: Story, weights: Sequence[Vector]) -> Vector:
    """W_o of the heads' Σ_j α_ij (W_v h_j + a_{clip(j-i)}); zeros without weights."""
    if not any(any(head_weights) for head_weights in weights):
        return [0.0] * read.context_size
    groups, joined = read.values.num_key_value_heads, []
    for head, head_weights in enumerate(weights):
        total: Vector = []
        for j, h in enumerate(story.memory):
            value = head_slice(linear(read.values.value_projection, h), head * groups // len(weights), groups)
            vector = offset_vector(read.offsets, j - story.step)
            terms = [head_weights[j] * (x + y) for x, y in zip(value, vector, strict=True)]
            total = [x + y for x, y in zip(total or [0.0] * len(terms), terms, strict=True)]
        joined += total
    return linear(read.values.output_projection, joined)
