"""Energies straight from the equations: one head, one step, one sentence, loops over plain numbers.

A past is all that went before: the queries of all steps up to now, and the weights of all earlier steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from regard.attention import (
    AdditiveScore,
    BilinearScore,
    ConcatScore,
    DotScore,
    LocationScore,
    MixtureScore,
    PoolingScore,
    ScaledDotScore,
)

Vector = list[float]
Matrix = list[list[float]]
Score = Callable[[Any, int, Sequence[Vector], Matrix, Sequence[Vector]], Vector]
"""(score, head, queries up to now, memory (S, M), weights of earlier steps) -> energies (S)."""


def apply(weight: Matrix, x: Vector, bias: Vector | None = None) -> Vector:
    """W x + b.

    >>> apply([[1.0, 2.0]], [3.0, 4.0], [0.5])
    [11.5]
    """
    result = []
    for row_index, row in enumerate(weight):
        total = 0.0 if bias is None else bias[row_index]
        for a, b in zip(row, x, strict=True):
            total += a * b
        result.append(total)
    return result


def linear(layer: Any, x: Vector) -> Vector:
    """What an `nn.Linear` computes."""
    return apply(layer.weight.tolist(), x, None if layer.bias is None else layer.bias.tolist())


def number(scalar: Any) -> float:
    """A fixed number or a learned one as a float."""
    return scalar if isinstance(scalar, float) else scalar.detach().item()


def head_slice(x: Vector, head: int, num_heads: int) -> Vector:
    """A head's slice of a vector of all heads."""
    width = len(x) // num_heads
    return x[head * width : (head + 1) * width]


def softplus(x: float) -> float:
    """log(1 + eˣ)."""
    return math.log1p(math.exp(x)) if x < 30 else x


def additive(score: Any, head: int, queries: Sequence[Vector], memory: Matrix, past: Sequence[Vector]) -> Vector:
    """e_j = Σ_d v_d tanh((W q)_d + (U h_j)_d + b_d); normalised: v becomes g · v / ‖v‖."""
    return _additive(score, head, queries[-1], memory, [[0.0] * len(score.v[head])] * len(memory))


def _additive(score: Any, head: int, query: Vector, memory: Matrix, located: Matrix) -> Vector:
    v = score.v[head].tolist()
    if score.gain is not None:
        norm = math.sqrt(sum(x * x for x in v))
        v = [number(score.gain[head]) * x / norm for x in v]
    q = head_slice(linear(score.query_projection, query), head, score.num_heads)
    energies = []
    for h, f in zip(memory, located, strict=True):
        k = head_slice(linear(score.key_projection, h), head, score.num_heads)
        energies.append(sum(v[d] * math.tanh(q[d] + k[d] + f[d]) for d in range(len(v))))
    return energies


def concat(score: Any, head: int, queries: Sequence[Vector], memory: Matrix, past: Sequence[Vector]) -> Vector:
    """e_j = vᵀ tanh(W [q; h_j]), with the two halves of W put together again."""
    inner = score.additive
    halves = zip(inner.query_projection.weight.tolist(), inner.key_projection.weight.tolist(), strict=True)
    weight = [left + right for left, right in halves]
    v = inner.v[head].tolist()
    energies = []
    for h in memory:
        hidden = head_slice(apply(weight, queries[-1] + h), head, score.num_heads)
        energies.append(sum(a * math.tanh(b) for a, b in zip(v, hidden, strict=True)))
    return energies


def dot(score: Any, head: int, queries: Sequence[Vector], memory: Matrix, past: Sequence[Vector]) -> Vector:
    """e_j = g · qᵀ h_j over the head's slices."""
    q = head_slice(queries[-1], head, score.num_heads)
    keys = [head_slice(h, head, score.num_heads) for h in memory]
    return [number(score.scale) * sum(a * b for a, b in zip(q, k, strict=True)) for k in keys]


def bilinear(score: Any, head: int, queries: Sequence[Vector], memory: Matrix, past: Sequence[Vector]) -> Vector:
    """e_j = g · Σ_a Σ_b q_a W_ab h_jb, a over the head's slice of the query."""
    weight, query = score.key_projection.weight.tolist(), queries[-1]
    width = len(query) // score.num_heads
    energies = []
    for h in memory:
        total = 0.0
        for a in range(head * width, (head + 1) * width):
            for b in range(len(h)):
                total += query[a] * weight[a][b] * h[b]
        energies.append(number(score.dot.scale) * total)
    return energies


def scaled_dot(score: Any, head: int, queries: Sequence[Vector], memory: Matrix, past: Sequence[Vector]) -> Vector:
    """e_j = (W_q q)ᵀ(W_k h_j) / √d over the head's slices, d their width."""
    q = head_slice(linear(score.query_projection, queries[-1]), head, score.num_heads)
    energies = []
    for h in memory:
        k = head_slice(linear(score.key_projection, h), head, score.num_heads)
        energies.append(sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q)))
    return energies


def pooling(score: Any, head: int, queries: Sequence[Vector], memory: Matrix, past: Sequence[Vector]) -> Vector:
    """e_j = uᵀ tanh(W h_j + b)."""
    u = score.context_vector[head].tolist()
    energies = []
    for h in memory:
        hidden = head_slice([math.tanh(x) for x in linear(score.key_projection, h)], head, score.num_heads)
        energies.append(sum(a * b for a, b in zip(u, hidden, strict=True)))
    return energies


def location(score: Any, head: int, queries: Sequence[Vector], memory: Matrix, past: Sequence[Vector]) -> Vector:
    """e_ij = vᵀ tanh(W q_i + U h_j + L f_ij + b); f_ij = Σ_n F_n a_{j+n}, a the previous weights or all their sums."""
    num_positions = len(memory)
    previous = past[-1] if past else [0.0] * num_positions
    cumulative = [sum(weights[j] for weights in past) for j in range(num_positions)]
    channels = {"previous": [previous], "cumulative": [cumulative], "both": [previous, cumulative]}[score.location]
    filters = score.filters.weight.tolist()  # (H * num_filters, channels of a head, kernel)
    num_filters = len(filters) // score.num_heads
    projection = score.location_projection[head].tolist()  # (num_filters, D / H)
    located = []
    for j in range(num_positions):
        features = []
        for kernels in filters[head * num_filters : (head + 1) * num_filters]:
            total = 0.0
            for kernel, channel in zip(kernels, channels, strict=True):
                for n, factor in enumerate(kernel):
                    place = j + n - len(kernel) // 2
                    total += factor * channel[place] if 0 <= place < num_positions else 0.0
            features.append(total)
        located.append(
            [sum(features[f] * projection[f][d] for f in range(num_filters)) for d in range(len(projection[0]))]
        )
    return _additive(score.content, head, queries[-1], memory, located)


def mixture(score: Any, head: int, queries: Sequence[Vector], memory: Matrix, past: Sequence[Vector]) -> Vector:
    """e_ij = log Σ_c ω_c / √(2π σ_c²) exp(-(j - μ_ic)² / 2σ_c²), μ_ic = Σ_{i' ≤ i} Δ_{i'c}."""
    count = score.num_components
    means, weights, widths = [0.0] * count, [0.0] * count, [1.0] * count
    for query in queries:
        hidden = [math.tanh(x) for x in linear(score.hidden, query)]
        raw = head_slice(linear(score.parameters_of_mixture, hidden), head, score.num_heads)
        total = sum(math.exp(x) for x in raw[:count])
        weights = [math.exp(x) / total for x in raw[:count]]
        means = [mean + softplus(x) for mean, x in zip(means, raw[count : 2 * count], strict=True)]
        widths = [softplus(x) for x in raw[2 * count :]]
    energies = []
    for j in range(len(memory)):
        density = 0.0
        for weight, mean, width in zip(weights, means, widths, strict=True):
            scale = math.sqrt(2 * math.pi * width * width)
            density += weight / scale * math.exp(-((j - mean) ** 2) / (2 * width * width))
        energies.append(math.log(density))
    return energies


SCORES: dict[type, Score] = {
    AdditiveScore: additive,
    BilinearScore: bilinear,
    ConcatScore: concat,
    DotScore: dot,
    LocationScore: location,
    MixtureScore: mixture,
    PoolingScore: pooling,
    ScaledDotScore: scaled_dot,
}
"""The oracle of every score."""
