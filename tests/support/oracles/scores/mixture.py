"""Scores that are mixtures of densities."""

from __future__ import annotations

import itertools
import math
from typing import Any

from regard.attention import MixtureScore
from regard.interop.coqui import SigmoidMixtureScore
from support.oracles.arithmetic import head_slice, linear, sigmoid, softplus
from support.oracles.story import Story, Vector, oracle

STEPS = {"V0": math.exp, "V1": math.exp, "V2": softplus}
WIDTHS = {"V0": lambda x: math.sqrt(math.exp(-x) / 2), "V1": lambda x: math.sqrt(math.exp(x)), "V2": softplus}


def gaussian(distance: float, width: float) -> float:
    """exp(-d² / 2σ²)."""
    return math.exp(-(distance**2) / (2 * width * width))


def logistic(distance: float, width: float) -> float:
    """F((d + ½) / σ) - F((d - ½) / σ)."""
    return sigmoid((distance + 0.5) / width) - sigmoid((distance - 0.5) / width)


def thirds(raw: Vector) -> tuple[Vector, Vector, Vector]:
    """A vector in three equal parts."""
    count = len(raw) // 3
    return raw[:count], raw[count : 2 * count], raw[2 * count :]


def shares(raw: Vector) -> Vector:
    """Softmax."""
    total = sum(math.exp(x) for x in raw)
    return [math.exp(x) / total for x in raw]


@oracle(MixtureScore)
def mixture(score: Any, story: Story) -> Vector:
    """e_ij = log Σ_c ω_c / Z_c B(j - μ_ic, σ_c), μ_ic = Σ_{i' ≤ i} Δ_{i'c}, Z = √(2πσ²) for Gaussians except V0."""
    means = [0.0] * score.num_components
    weights, widths = means, means
    for query in story.queries:
        hidden = [math.tanh(x) for x in linear(score.hidden, query)]
        raw = head_slice(linear(score.parameters_of_mixture, hidden), story.head, score.num_heads)
        weight, step, width = thirds(raw)
        weights = [math.exp(x) for x in weight] if score.version == "V0" else shares(weight)
        means = [mean + STEPS[score.version](x) for mean, x in zip(means, step, strict=True)]
        widths = [WIDTHS[score.version](x) for x in width]
    energies = []
    for j in range(story.num_positions):
        density = 0.0
        for weight_c, mean, width_c in zip(weights, means, widths, strict=True):
            if score.family == "logistic":
                density += weight_c * logistic(j - mean, width_c)
            else:
                scale = 1.0 if score.version == "V0" else math.sqrt(2 * math.pi * width_c * width_c)
                density += weight_c / scale * gaussian(j - mean, width_c)
        energies.append(math.log(density))
    return energies


@oracle(SigmoidMixtureScore)
def sigmoid_mixture(score: Any, story: Story) -> Vector:
    """e_ij = log Σ_c (φ_c(j + 3/2) - φ_c(j + ½)), φ_c(x) = ω_c / (1 + σ((μ_c - x) / s_c)); 10⁻⁸ for 0."""
    means = [0.0] * score.num_components
    weights, widths = means, means
    for query in story.queries:
        hidden = [max(x, 0.0) for x in linear(score.hidden, query)]
        raw = head_slice(linear(score.parameters_of_mixture, hidden), story.head, score.num_heads)
        weight, width, step = thirds(raw)
        weights = [x + 1e-5 for x in shares(weight)]
        widths = [softplus(x) + 1e-5 for x in width]
        means = [mean + softplus(x) for mean, x in zip(means, step, strict=True)]
    passed = []
    for j in range(story.num_positions + 1):
        components = zip(weights, means, widths, strict=True)
        passed.append(sum(w / (1 + sigmoid((mean - j - 0.5) / s)) for w, mean, s in components))
    return [math.log(after - before or 1e-8) for before, after in itertools.pairwise(passed)]
