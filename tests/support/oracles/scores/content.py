"""Scores that compare query and memory."""

from __future__ import annotations

import math
from typing import Any

from regard.attention import (
    AdditiveScore,
    BilinearScore,
    ConcatScore,
    DotScore,
    NormalisedDotScore,
    PoolingScore,
    ScaledDotScore,
    TanhDotScore,
)
from regard.interop.sgrvinod import RectifiedScore
from support.oracles.arithmetic import apply, dot, head_slice, linear, number
from support.oracles.story import Matrix, Story, Vector, oracle


@oracle(AdditiveScore)
def additive(score: Any, story: Story, located: Matrix | None = None) -> Vector:
    """e_j = Σ_d v_d tanh((W q)_d + (U h_j)_d + b_d [+ located_jd]); normalised: v becomes g · v / ‖v‖."""
    v = score.v[story.head].tolist()
    if score.gain is not None:
        norm = math.sqrt(sum(x * x for x in v))
        v = [number(score.gain[story.head]) * x / norm for x in v]
    q, keys = projected(score, story)
    energies = []
    for j, k in enumerate(keys):
        f = [0.0] * len(v) if located is None else located[j]
        energies.append(sum(v[d] * math.tanh(q[d] + k[d] + f[d]) for d in range(len(v))))
    return energies


@oracle(ConcatScore)
def concat(score: Any, story: Story) -> Vector:
    """e_j = vᵀ tanh(W [q; h_j]), with the two halves of W joined."""
    inner = score.additive
    halves = zip(inner.query_projection.weight.tolist(), inner.key_projection.weight.tolist(), strict=True)
    weight = [left + right for left, right in halves]
    v = inner.v[story.head].tolist()
    energies = []
    for h in story.keys:
        hidden = head_slice(apply(weight, story.query + h), story.head, score.num_heads)
        energies.append(sum(a * math.tanh(b) for a, b in zip(v, hidden, strict=True)))
    return energies


@oracle(DotScore)
def dot_score(score: Any, story: Story) -> Vector:
    """e_j = g · qᵀ h_j over the head's slices."""
    q = head_slice(story.query, story.head, score.num_heads)
    return [number(score.scale) * dot(q, head_slice(h, story.head, score.num_heads)) for h in story.keys]


@oracle(BilinearScore)
def bilinear(score: Any, story: Story) -> Vector:
    """e_j = g · Σ_a Σ_b q_a W_ab h_jb, a over the head's slice of the query."""
    weight = score.key_projection.weight.tolist()
    width = len(story.query) // score.num_heads
    energies = []
    for h in story.keys:
        total = 0.0
        for a in range(story.head * width, (story.head + 1) * width):
            for b in range(len(h)):
                total += story.query[a] * weight[a][b] * h[b]
        energies.append(number(score.dot.scale) * total)
    return energies


@oracle(NormalisedDotScore)
def normalised_dot(score: Any, story: Story) -> Vector:
    """e_j = g · (W_q q)ᵀ(W_k h_j) / (‖W_q q‖ ‖W_k h_j‖) over the head's slices."""
    q, keys = projected(score.content, story)
    return [number(score.gain) * dot(q, k) / math.sqrt(dot(q, q) * dot(k, k)) for k in keys]


@oracle(ScaledDotScore)
def scaled_dot(score: Any, story: Story) -> Vector:
    """e_j = (W_q q)ᵀ(W_k h_j) / √d over the head's slices, d their width, with the keys of the head's group."""
    q, keys = projected(score, story)
    return [dot(q, k) / math.sqrt(len(q)) for k in keys]


def projected(score: Any, story: Story) -> tuple[Vector, list[Vector]]:
    """W_q q, and W_k h_j of this head, or of the key-value head that it shares."""
    groups = getattr(score, "num_key_value_heads", score.num_heads)
    q = head_slice(linear(score.query_projection, story.query), story.head, score.num_heads)
    shared = story.head * groups // score.num_heads
    return q, [head_slice(linear(score.key_projection, h), shared, groups) for h in story.keys]


@oracle(PoolingScore)
def pooling(score: Any, story: Story) -> Vector:
    """e_j = uᵀ tanh(W h_j + b)."""
    u = score.context_vector[story.head].tolist()
    hidden = [[math.tanh(x) for x in linear(score.key_projection, h)] for h in story.keys]
    return [dot(u, head_slice(x, story.head, score.num_heads)) for x in hidden]


@oracle(TanhDotScore)
def tanh_dot(score: Any, story: Story) -> Vector:
    """e_j = Σ_d tanh((W_q q)_d + b_d) tanh((W_k h_j)_d + b'_d) / √d over the head's slices, d their width."""
    q, keys = projected(score.content, story)
    energies = []
    for k in keys:
        total = sum(math.tanh(a) * math.tanh(b) for a, b in zip(q, k, strict=True))
        energies.append(total / math.sqrt(len(q)))
    return energies


@oracle(RectifiedScore)
def rectified(score: Any, story: Story) -> Vector:
    """e_j = Σ_d v_d max((W q)_d + (U h_j)_d + b_d, 0)."""
    inner = score.additive
    v = inner.v[story.head].tolist()
    q, keys = projected(inner, story)
    return [sum(v[d] * max(q[d] + k[d], 0.0) for d in range(len(v))) for k in keys]
