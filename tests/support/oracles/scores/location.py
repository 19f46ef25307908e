"""Scores that depend on earlier alignments."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from regard.attention import CoverageScore, DynamicConvolutionScore, LocationScore, PlaneCoverageScore
from regard.interop.coqui import UnmovedLocationScore
from support.oracles.arithmetic import apply, dot, head_slice, linear
from support.oracles.scores.content import additive
from support.oracles.story import Matrix, Story, Vector, oracle


def first_weights(kind: str, num_positions: int) -> Vector:
    """What the first step takes as the weights before it.

    >>> first_weights("uniform", 2), first_weights("first", 2), first_weights("zeros", 2)
    ([0.5, 0.5], [1.0, 0.0], [0.0, 0.0])
    """
    even = 1 / max(num_positions, 1)
    return [{"zeros": 0.0, "uniform": even, "first": float(j == 0)}[kind] for j in range(num_positions)]


def total(story: Story, start: Vector) -> Vector:
    """The sum of all weights so far and of the weights at the start."""
    return [start[j] + sum(weights[j] for weights in story.weights) for j in range(story.num_positions)]


def correlate(kernels: Matrix, channels: Matrix, j: int) -> float:
    """Σ_c Σ_n K_cn a_c,j+n with the middle of the kernel at j; zero beyond the ends."""
    result = 0.0
    for kernel, channel in zip(kernels, channels, strict=True):
        for n, factor in enumerate(kernel):
            place = j + n - len(kernel) // 2
            result += factor * channel[place] if 0 <= place < len(channel) else 0.0
    return result


def projected(features: Vector, projection: Matrix) -> Vector:
    """Σ_f x_f P_fd."""
    return [sum(x * row[d] for x, row in zip(features, projection, strict=True)) for d in range(len(projection[0]))]


@oracle(LocationScore)
def location(score: Any, story: Story) -> Vector:
    """e_ij = vᵀ tanh(W q_i + U h_j + L f_ij + b); f_ij = Σ_n F_n a_{j+n}, a the previous weights or all their sums."""
    start = first_weights(score.first_alignment, story.num_positions)
    recent = [*[start] * score.num_previous, *story.weights][-score.num_previous :]
    stays = score.accumulate_first or not story.weights
    cumulative = total(story, start if stays else [0.0] * story.num_positions)
    channels = {"previous": recent, "cumulative": [cumulative], "both": [*recent, cumulative]}[score.location]
    return filtered(score, story, channels)


def filtered(score: Any, story: Story, channels: Matrix) -> Vector:
    """e_ij from the input channels of the filters."""
    filters = score.filters.weight.tolist()  # (H * num_filters, channels of a head, kernel)
    width = len(filters) // score.num_heads
    head_filters = filters[story.head * width : (story.head + 1) * width]
    projection = score.location_projection[story.head].tolist()  # (num_filters, D / H)
    located = []
    for j in range(story.num_positions):
        located.append(projected([correlate(kernels, channels, j) for kernels in head_filters], projection))
    return additive(score.content, story, located)


@oracle(UnmovedLocationScore)
def unmoved_location(score: Any, story: Story) -> Vector:
    """The same from the previous weights and the sum of softmax(e) of all earlier steps, all computed again."""
    summed = [0.0] * story.num_positions
    previous = summed
    for t in range(story.step):
        earlier = replace(story, queries=story.queries[: t + 1], weights=story.weights[:t])
        energies = filtered(score.location, earlier, [previous, summed])
        exponents = [math.exp(e - max(energies)) for e in energies]
        summed = [c + x / sum(exponents) for c, x in zip(summed, exponents, strict=True)]
        previous = story.weights[t]
    return filtered(score.location, story, [previous, summed])


@oracle(CoverageScore)
def coverage(score: Any, story: Story) -> Vector:
    """e_ij = vᵀ tanh(W q_i + U h_j + w c_ij + b), c_ij the sum of all earlier weights of j."""
    coverages = total(story, first_weights(score.first_alignment, story.num_positions))
    w = score.coverage_projection[story.head].tolist()
    return additive(score.content, story, [[c * x for x in w] for c in coverages])


@oracle(PlaneCoverageScore)
def plane_coverage(score: Any, story: Story) -> Vector:
    """e_ij = vᵀ tanh(W q_i + U h_j + U_f f_ij + b); f_ij = Σ_y Σ_x F_yx c, y rows below and x beside cell j."""
    coverages = total(story, [0.0] * story.num_positions)
    height = 1 if story.grid is None else story.grid[0]
    columns = story.num_positions // max(height, 1)
    filters = score.filters.weight.tolist()  # (H * num_filters, 1, Y, X)
    count = len(filters) // score.num_heads
    projection = score.location_projection[story.head].tolist()
    located = []
    for j in range(story.num_positions):
        features = [0.0] * count
        for f, ((kernel,),) in enumerate(zip(filters[story.head * count : (story.head + 1) * count])):
            for i, line in enumerate(kernel):
                for n, factor in enumerate(line):
                    y, x = j // columns + i - len(kernel) // 2, j % columns + n - len(line) // 2
                    if 0 <= y < height and 0 <= x < columns:
                        features[f] += factor * coverages[y * columns + x]
        located.append(projected(features, projection))
    return additive(score.content, story, located)


@oracle(DynamicConvolutionScore)
def dynamic_convolution(score: Any, story: Story) -> Vector:
    """e_ij = vᵀ tanh(U f_ij + T g_ij + b): fixed filters, and filters V tanh(W q + b), on the previous weights."""
    start = first_weights(score.first_alignment, story.num_positions)
    previous = story.weights[-1] if story.weights else start
    fixed = score.static_filters.weight.tolist()
    fixed = fixed[story.head * len(fixed) // score.num_heads : (story.head + 1) * len(fixed) // score.num_heads]
    flat = apply(
        score.filter_projection.weight.tolist(), [math.tanh(x) for x in linear(score.query_projection, story.query)]
    )
    flat = head_slice(flat, story.head, score.num_heads)
    chosen = [flat[n : n + score.kernel_size] for n in range(0, len(flat), score.kernel_size)]
    bias, v = score.bias[story.head].tolist(), score.v[story.head].tolist()
    energies = []
    for j in range(story.num_positions):
        f = [correlate(kernels, [previous], j) for kernels in fixed]
        g = [correlate([kernel], [previous], j) for kernel in chosen]
        hidden = zip(
            projected(f, score.static_projection[story.head].tolist()),
            projected(g, score.dynamic_projection[story.head].tolist()),
            bias,
            strict=True,
        )
        energies.append(dot(v, [math.tanh(a + b + c) for a, b, c in hidden]))
    return energies
