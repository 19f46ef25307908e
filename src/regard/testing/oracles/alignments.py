"""Weights from energies, straight from the equations: one head, one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from regard.attention import ChunkwiseAlignment, ExponentialAlignment, SoftmaxAlignment
from regard.testing.oracles.scores import SCORES, Matrix, Vector, number

Alignment = Callable[[Any, int, Sequence[Vector], Sequence[list[bool]], Sequence[Vector], Matrix], Vector]
"""(alignment, head, energies of all steps, supports of all steps, queries of all steps, memory) -> weights (S)."""


def masked_softmax(energies: Vector, support: list[bool]) -> Vector:
    """w_j = exp(e_j) / Σ exp(e_k) over the support; zeros without support.

    >>> masked_softmax([0.0, 5.0, 0.0], [True, False, True])
    [0.5, 0.0, 0.5]
    """
    allowed = [e for e, inside in zip(energies, support, strict=True) if inside]
    if not allowed:
        return [0.0] * len(energies)
    highest = max(allowed)
    total = math.fsum(math.exp(e - highest) for e in allowed)
    return [math.exp(e - highest) / total if inside else 0.0 for e, inside in zip(energies, support, strict=True)]


def monotonic(choose: Vector, previous: Vector) -> Vector:
    """α_j = p_j Σ_{k ≤ j} α'_k Π_{l = k}^{j-1} (1 - p_l): the reader that stood at k passes all between and stops.

    >>> monotonic([0.5, 0.5], [1.0, 0.0])
    [0.5, 0.25]
    """
    result = []
    for j, p in enumerate(choose):
        total = 0.0
        for k in range(j + 1):
            total += previous[k] * math.prod(1 - choose[passed] for passed in range(k, j))
        result.append(p * total)
    return result


def chunk(stops: Vector, energies: Vector, support: list[bool], width: int) -> Vector:
    """β_j = Σ_k α_k exp(u_j) / Σ_l exp(u_l): a softmax over the `width` positions that end at each stop k."""
    result = [0.0] * len(stops)
    for k, mass in enumerate(stops):
        inside = [support[j] and k - width < j <= k for j in range(len(stops))]
        for j, weight in enumerate(masked_softmax(energies, inside)):
            result[j] += mass * weight
    return result


def softmax_alignment(
    alignment: Any,
    head: int,
    energies: Sequence[Vector],
    supports: Sequence[list[bool]],
    queries: Sequence[Vector],
    memory: Matrix,
) -> Vector:
    """Softmax of β e."""
    return masked_softmax([alignment.sharpening * e for e in energies[-1]], supports[-1])


def exponential_alignment(
    alignment: Any,
    head: int,
    energies: Sequence[Vector],
    supports: Sequence[list[bool]],
    queries: Sequence[Vector],
    memory: Matrix,
) -> Vector:
    """exp(e) inside the support."""
    return [math.exp(e) if inside else 0.0 for e, inside in zip(energies[-1], supports[-1], strict=True)]


def chunkwise_alignment(
    alignment: Any,
    head: int,
    energies: Sequence[Vector],
    supports: Sequence[list[bool]],
    queries: Sequence[Vector],
    memory: Matrix,
) -> Vector:
    """β of the last step; α runs through all steps from the first position."""
    stops = [1.0] + [0.0] * (len(memory) - 1)
    for step, support in zip(energies, supports, strict=True):
        sigmoid = [1 / (1 + math.exp(-(e + number(alignment.bias)))) for e in step]
        stops = monotonic([p if inside else 0.0 for p, inside in zip(sigmoid, support, strict=True)], stops)
    second = SCORES[type(alignment.chunk_score)](alignment.chunk_score, head, queries, memory, [])
    return chunk(stops, second, supports[-1], alignment.chunk_size)


ALIGNMENTS: dict[type, Alignment] = {
    ChunkwiseAlignment: chunkwise_alignment,
    ExponentialAlignment: exponential_alignment,
    SoftmaxAlignment: softmax_alignment,
}
"""The oracle of every alignment."""
