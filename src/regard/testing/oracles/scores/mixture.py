"""Scores that are mixtures of densities."""

from __future__ import annotations

import math
from typing import Any

from regard.attention import MixtureScore
from regard.testing.oracles.arithmetic import head_slice, linear, softplus
from regard.testing.oracles.story import Story, Vector, oracle


@oracle(MixtureScore)
def mixture(score: Any, story: Story) -> Vector:
    """e_ij = log Σ_c ω_c / √(2π σ_c²) exp(-(j - μ_ic)² / 2σ_c²), μ_ic = Σ_{i' ≤ i} Δ_{i'c}."""
    count = score.num_components
    means, weights, widths = [0.0] * count, [0.0] * count, [1.0] * count
    for query in story.queries:
        hidden = [math.tanh(x) for x in linear(score.hidden, query)]
        raw = head_slice(linear(score.parameters_of_mixture, hidden), story.head, score.num_heads)
        total = sum(math.exp(x) for x in raw[:count])
        weights = [math.exp(x) / total for x in raw[:count]]
        means = [mean + softplus(x) for mean, x in zip(means, raw[count : 2 * count], strict=True)]
        widths = [softplus(x) for x in raw[2 * count :]]
    energies = []
    for j in range(story.num_positions):
        density = 0.0
        for weight, mean, width in zip(weights, means, widths, strict=True):
            scale = math.sqrt(2 * math.pi * width * width)
            density += weight / scale * math.exp(-((j - mean) ** 2) / (2 * width * width))
        energies.append(math.log(density))
    return energies
