"""Rows of cells, and their gradients through what is not linear."""

from __future__ import annotations

from typing import Any

from regard.ops.compiled import part
from regard.ops.compiled.elementary import sigmoid, tanh


@part
def open_gates(gates: Any, added: Any, size: int) -> None:
    """σ, σ, tanh and σ of the sums of an LSTM's (i, f, g, o), in the place of the first."""
    g, o, added_g, added_o = gates[2 * size :], gates[3 * size :], added[2 * size :], added[3 * size :]
    for d in range(2 * size):
        gates[d] = sigmoid(gates[d] + added[d])
    for d in range(size):
        g[d] = tanh(g[d] + added_g[d])
    for d in range(size):
        o[d] = sigmoid(o[d] + added_o[d])


@part
def through_sigmoid(gradient: Any, y: Any) -> Any:
    """By x, from the one by y = σ(x)."""
    return gradient * (y - y * y)


@part
def through_tanh(gradient: Any, y: Any) -> Any:
    """By x, from the one by y = tanh(x)."""
    return gradient - gradient * (y * y)
