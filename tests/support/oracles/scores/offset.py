"""Scores that depend on the offset of a position from the query."""

from __future__ import annotations

import math
from typing import Any

from regard.attention import NormalisedDotScore, RelativeDotScore, RotaryDotScore, TransformerXLScore
from support.oracles.arithmetic import apply, dot, head_slice, number
from support.oracles.scores.content import projected
from support.oracles.story import Story, Vector, oracle


def rotate(x: Vector, place: int, size: int, base: float, layout: str) -> Vector:
    """x with pair p of its first `size` features rotated by place / base^{2p/size}.

    >>> rotate([1.0, 0.0, 7.0], 0, 2, 10.0, "half")
    [1.0, 0.0, 7.0]
    """
    rotated = list(x)
    for p in range(size // 2):
        first, second = (2 * p, 2 * p + 1) if layout == "interleaved" else (p, p + size // 2)
        angle = place / base ** (2 * p / size)
        rotated[first] = x[first] * math.cos(angle) - x[second] * math.sin(angle)
        rotated[second] = x[first] * math.sin(angle) + x[second] * math.cos(angle)
    return rotated


@oracle(RotaryDotScore)
def rotary(score: Any, story: Story) -> Vector:
    """e_ij = (R_i W_q q_i)ᵀ(R_j W_k h_j) / √d; normalised: g times that of queries and keys of length 1."""
    normalised = isinstance(score.content, NormalisedDotScore)
    q, keys = projected(score.content.content if normalised else score.content, story)
    how = (score.rotary_size, score.base, score.layout)
    rotated = rotate(q, story.step, *how)
    energies = [dot(rotated, rotate(k, j, *how)) for j, k in enumerate(keys)]
    if not normalised:
        return [energy / math.sqrt(len(q)) for energy in energies]
    return [number(score.content.gain) * e / math.sqrt(dot(q, q) * dot(k, k)) for e, k in zip(energies, keys)]


@oracle(RelativeDotScore)
def relative(score: Any, story: Story) -> Vector:
    """e_ij = (W_q q_i)ᵀ(W_k h_j + a_{clip(j-i)}) / √d."""
    q, keys = projected(score.content, story)
    vectors = [offset_vector(score.offsets, j - story.step) for j in range(len(keys))]
    return [
        dot(q, [x + y for x, y in zip(k, a, strict=True)]) / math.sqrt(len(q))
        for k, a in zip(keys, vectors, strict=True)
    ]


def offset_vector(offsets: Any, offset: int) -> Vector:
    """a_{clip(offset, -k, k)}."""
    k = offsets.max_distance
    vector: Vector = offsets.vectors[max(-k, min(k, offset)) + k].tolist()
    return vector


@oracle(TransformerXLScore)
def transformer_xl(score: Any, story: Story) -> Vector:
    """e_ij = [(q + u)ᵀ k_j + (q + v)ᵀ W_r r_{i-j}] / √d, with r_{i-j} written out for every pair."""
    q, keys = projected(score.content, story)
    u, v = (bias[story.head].tolist() for bias in (score.content_bias, score.offset_bias))
    energies = []
    for j, k in enumerate(keys):
        frequencies = [10000.0 ** (-2 * p / score.position_size) for p in range(score.position_size // 2)]
        offset = story.step - j
        r = [math.sin(offset * w) for w in frequencies] + [math.cos(offset * w) for w in frequencies]
        place = head_slice(apply(score.offset_projection.weight.tolist(), r), story.head, score.num_heads)
        content = dot([a + b for a, b in zip(q, u, strict=True)], k)
        energies.append((content + dot([a + b for a, b in zip(q, v, strict=True)], place)) / math.sqrt(len(q)))
    return energies
