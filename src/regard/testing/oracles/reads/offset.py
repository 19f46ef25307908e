"""Sums of values and of vectors for offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.attention import RelativeSum
from regard.testing.oracles.arithmetic import head_slice, linear
from regard.testing.oracles.scores.offset import offset_vector
from regard.testing.oracles.story import Story, Vector, oracle


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
