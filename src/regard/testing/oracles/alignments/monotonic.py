"""Readers that move from left to right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.attention import ChunkwiseAlignment, MonotonicAlignment
from regard.attention.peers import ClippedMonotonicAlignment
from regard.testing.oracles.arithmetic import masked_softmax, number, sigmoid
from regard.testing.oracles.story import Story, Vector, ask, oracle


def monotonic(choose: Vector, previous: Vector) -> Vector:
    """α_j = p_j Σ_{k ≤ j} α'_k Π_{l = k}^{j-1} (1 - p_l): the reader passes all positions from k on and stops at j.

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


def clipped(choose: Vector, previous: Vector) -> Vector:
    """α_j = p_j c_j Σ_{k ≤ j} α'_k / max(c_k, 1e-10) with c_j = Π_{l < j} (1 - p_l): where c is smaller, mass is lost.

    >>> clipped([0.5, 0.5], [1.0, 0.0])
    [0.5, 0.25]
    >>> clipped([1.0, 1.0], [0.0, 1.0])  # c_1 is 0
    [0.0, 0.0]
    """
    passed = [math.prod(1 - p for p in choose[:j]) for j in range(len(choose))]
    found = [previous[k] / max(c, 1e-10) for k, c in enumerate(passed)]
    return [p * c * sum(found[: j + 1]) for j, (p, c) in enumerate(zip(choose, passed, strict=True))]


def chunk(stops: Vector, energies: Vector, support: list[bool], width: int) -> Vector:
    """β_j = Σ_k α_k exp(u_j) / Σ_l exp(u_l): a softmax over the `width` positions that end at each stop k."""
    result = [0.0] * len(stops)
    for k, mass in enumerate(stops):
        inside = [support[j] and k - width < j <= k for j in range(len(stops))]
        for j, weight in enumerate(masked_softmax(energies, inside)):
            result[j] += mass * weight
    return result


@oracle(MonotonicAlignment, ClippedMonotonicAlignment)
def reader(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """α of the last step, computed through all steps from the first position; as in evaluation, without noise."""
    expected = clipped if isinstance(alignment, ClippedMonotonicAlignment) else monotonic
    stops = [1.0] + [0.0] * (story.num_positions - 1)
    for step, support in zip(energies, supports, strict=True):
        choose = [sigmoid(e + number(alignment.bias)) for e in step]
        if alignment.hard != "never":
            choose = [1.0 if p > 0.5 else 0.0 for p in choose]
        stops = expected([p if inside else 0.0 for p, inside in zip(choose, support, strict=True)], stops)
        if alignment.remaining == "last" and any(support):
            last = max(j for j, inside in enumerate(support) if inside)
            stops[last] += 1 - sum(stops)
    return stops


@oracle(ChunkwiseAlignment)
def chunkwise(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """β of the last step from the reader's α; without a chunk size the chunk begins at the first position."""
    stops = ask(alignment.reader, story, energies, supports)
    width = alignment.chunk_size or story.num_positions
    return chunk(stops, ask(alignment.chunk_score, story), supports[-1], width)
