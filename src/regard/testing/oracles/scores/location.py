"""Scores that see where attention was."""

from __future__ import annotations

from typing import Any

from regard.attention import LocationScore
from regard.testing.oracles.scores.content import additive
from regard.testing.oracles.story import Story, Vector, oracle


@oracle(LocationScore)
def location(score: Any, story: Story) -> Vector:
    """e_ij = vᵀ tanh(W q_i + U h_j + L f_ij + b); f_ij = Σ_n F_n a_{j+n}, a the previous weights or all their sums."""
    num_positions = story.num_positions
    previous = story.weights[-1] if story.weights else [0.0] * num_positions
    cumulative = [sum(weights[j] for weights in story.weights) for j in range(num_positions)]
    channels = {"previous": [previous], "cumulative": [cumulative], "both": [previous, cumulative]}[score.location]
    filters = score.filters.weight.tolist()  # (H * num_filters, channels of a head, kernel)
    num_filters = len(filters) // score.num_heads
    projection = score.location_projection[story.head].tolist()  # (num_filters, D / H)
    located = []
    for j in range(num_positions):
        features = []
        for kernels in filters[story.head * num_filters : (story.head + 1) * num_filters]:
            total = 0.0
            for kernel, channel in zip(kernels, channels, strict=True):
                for n, factor in enumerate(kernel):
                    place = j + n - len(kernel) // 2
                    total += factor * channel[place] if 0 <= place < num_positions else 0.0
            features.append(total)
        located.append(
            [sum(features[f] * projection[f][d] for f in range(num_filters)) for d in range(len(projection[0]))]
        )
    return additive(score.content, story, located)
