"""Alignments that depend on the energies of one step only, except softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.attention import (
    EntmaxAlignment,
    HardmaxAlignment,
    SigmoidAlignment,
    SparsemaxAlignment,
    StochasticAlignment,
)
from regard.testing.oracles.arithmetic import masked_softmax, number, sigmoid
from regard.testing.oracles.story import Story, Vector, oracle


def entmax(energies: Vector, support: list[bool], alpha: float) -> Vector:
    """w_j = max((α - 1) e_j - τ, 0)^{1/(α - 1)} over the support, τ from 200 halvings; zeros without support.

    >>> [round(w, 6) for w in entmax([1.0, 0.5, -1.0], [True, True, True], 2.0)]
    [0.75, 0.25, 0.0]
    """
    allowed = [(alpha - 1) * e for e, inside in zip(energies, support, strict=True) if inside]
    if not allowed:
        return [0.0] * len(energies)
    low, high = max(allowed) - 1, max(allowed)

    def weight(x: float, threshold: float) -> float:
        return max(x - threshold, 0.0) ** (1 / (alpha - 1))

    for _ in range(200):
        middle = (low + high) / 2
        if math.fsum(weight(x, middle) for x in allowed) > 1:
            low = middle
        else:
            high = middle
    return [weight((alpha - 1) * e, high) if inside else 0.0 for e, inside in zip(energies, support, strict=True)]


def hardmax(energies: Vector, support: list[bool]) -> Vector:
    """1 at the first of the largest energies in the support.

    >>> hardmax([1.0, 2.0, 2.0, 3.0], [True, True, True, False])
    [0.0, 1.0, 0.0, 0.0]
    """
    best: int | None = None
    for j, e in enumerate(energies):
        if support[j] and (best is None or e > energies[best]):
            best = j
    return [1.0 if j == best else 0.0 for j in range(len(energies))]


@oracle(SparsemaxAlignment)
def sparsemax_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """Entmax at α = 2."""
    return entmax([part.sharpening * e for e in energies[-1]], supports[-1], 2.0)


@oracle(EntmaxAlignment)
def entmax_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """Entmax with the head's own α, 1 + σ(a)."""
    alpha = part.fixed_alpha
    if part.alpha_logits is not None:
        alpha = 1 + sigmoid(number(part.alpha_logits[story.head]))
    return entmax([part.sharpening * e for e in energies[-1]], supports[-1], alpha)


@oracle(HardmaxAlignment)
def hardmax_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """Hardmax of e."""
    return hardmax(energies[-1], supports[-1])


@oracle(SigmoidAlignment)
def sigmoid_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """σ(β e + r) in the support, divided by their sum if the part is normalised."""
    bias = 0.0 if part.bias is None else number(part.bias)
    weights = [
        sigmoid(part.sharpening * e + bias) if inside else 0.0
        for e, inside in zip(energies[-1], supports[-1], strict=True)
    ]
    total = math.fsum(weights)
    return [w / total for w in weights] if part.is_normalised and total > 0 else weights


@oracle(StochasticAlignment)
def stochastic_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """The weights of evaluation: the most probable position, or softmax(e / temperature)."""
    if part.evaluation == "argmax":
        return hardmax(energies[-1], supports[-1])
    return masked_softmax([e / part.temperature for e in energies[-1]], supports[-1])
