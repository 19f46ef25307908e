"""Matrices and nonlinearities over plain floats."""

from __future__ import annotations

import math
from typing import Any

from support.oracles.story import Matrix, Vector


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
    """The output of an `nn.Linear`."""
    return apply(layer.weight.tolist(), x, None if layer.bias is None else layer.bias.tolist())


def number(scalar: Any) -> float:
    """A fixed or learned number as a float."""
    return scalar if isinstance(scalar, float) else scalar.detach().item()


def head_slice(x: Vector, head: int, num_heads: int) -> Vector:
    """A head's slice of a vector of all heads."""
    width = len(x) // num_heads
    return x[head * width : (head + 1) * width]


def dot(a: Vector, b: Vector) -> float:
    """Σ a b."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def softplus(x: float) -> float:
    """log(1 + eˣ)."""
    return math.log1p(math.exp(x)) if x < 30 else x


def sigmoid(x: float) -> float:
    """1 / (1 + e⁻ˣ)."""
    return 1 / (1 + math.exp(-x))


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
