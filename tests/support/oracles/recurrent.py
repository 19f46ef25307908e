"""Recurrent cells, unit by unit."""

from __future__ import annotations

import math
from typing import Any

from support.oracles.arithmetic import apply, sigmoid
from support.oracles.story import Matrix, Vector


def lstm(gates_of_input: Vector, gates_of_state: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector]:
    """c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c'); gates in the order i, f, g, o."""
    size = len(h)
    z = [a + b for a, b in zip(gates_of_input, gates_of_state, strict=True)]
    next_c = [sigmoid(z[size + d]) * c[d] + sigmoid(z[d]) * math.tanh(z[2 * size + d]) for d in range(size)]
    return [sigmoid(z[3 * size + d]) * math.tanh(next_c[d]) for d in range(size)], next_c


def gru(gates_of_input: Vector, gates_of_state: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector]:
    """n = tanh(W x + b + σ(r) (U h + b')), h' = (1 - σ(z)) n + σ(z) h; gates in the order r, z, n."""
    size, next_h = len(h), []
    for d in range(size):
        reset = sigmoid(gates_of_input[d] + gates_of_state[d])
        update = sigmoid(gates_of_input[size + d] + gates_of_state[size + d])
        candidate = math.tanh(gates_of_input[2 * size + d] + reset * gates_of_state[2 * size + d])
        next_h.append((1 - update) * candidate + update * h[d])
    return next_h, c


def vanilla(gates_of_input: Vector, gates_of_state: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector]:
    """h' = tanh(W x + U h + b)."""
    return [math.tanh(a + b) for a, b in zip(gates_of_input, gates_of_state, strict=True)], c


CELLS = {"lstm": lstm, "gru": gru, "rnn": vanilla}


def run(stack: Any, inputs: Matrix) -> Matrix:
    """The outputs of a `RecurrentStack` in one or two directions over one sentence without padding, from zeros."""
    for index, layer in enumerate(stack.layers):
        directions = [_direction(stack, layer, inputs, "")]
        if stack.bidirectional:
            directions.append(_direction(stack, layer, inputs[::-1], "_reverse")[::-1])
        outputs = [[x for direction in directions for x in direction[t]] for t in range(len(inputs))]
        if stack.residual and index > 0:
            outputs = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(inputs, outputs, strict=True)]
        inputs = outputs
    return inputs


def _direction(stack: Any, layer: Any, inputs: Matrix, suffix: str) -> Matrix:
    weights = {
        name: getattr(layer, f"{name}_l0{suffix}").tolist() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    h, c, outputs = [0.0] * stack.size, [0.0] * stack.size, []
    for x in inputs:
        of_input = apply(weights["weight_ih"], x, weights["bias_ih"])
        of_state = apply(weights["weight_hh"], h, weights["bias_hh"])
        h, c = CELLS[stack.cell](of_input, of_state, h, c)
        outputs.append(h)
    return outputs
