"""The least work of jobs: floating-point operations (a multiply-add is two) and bytes in float32.

The backward pass of products costs twice the forward pass: a product for the inputs and one for the weights.
"""

from __future__ import annotations

from speed.case import Work

FLOAT = 4
_FORWARD, _BACKWARD = 6, 10
"""Operations of a factored tanh: forward a·b, min, 1 + …, the quotient, a multiply-add; backward its two products
more, and three sums."""


def lstm(rows: int, inputs: int, size: int) -> int:
    """The products of `rows` steps."""
    return 2 * rows * 4 * size * (inputs + size)


def linear(rows: int, inputs: int, outputs: int) -> int:
    """The product of a linear map."""
    return 2 * rows * inputs * outputs


def output(M: int, D: int, N: int) -> Work:
    """An output layer over M rows and its loss, forward and backward."""
    return Work(3 * linear(M, D, N), FLOAT * 2 * (M * D + N * D + N))


def tangents(rows: int, positions: int, size: int, *, backward: bool) -> int:
    """The additive energies of `rows` queries."""
    return rows * positions * size * (_FORWARD + (_BACKWARD if backward else 0))


def energies(B: int, T: int, S: int, D: int, *, backward: bool = False) -> Work:
    """Additive energies only."""
    inputs, results = B * T * D + B * S * D + D, B * T * S
    passes = (inputs + results) + (2 * inputs + results if backward else 0)
    return Work(tangents(B * T, S, D, backward=backward), FLOAT * passes)


def location(B: int, T: int, S: int, Q: int, M: int, D: int, W: int, F: int, *, backward: bool = False) -> Work:
    """Location-sensitive attention: projections, filters, tangents, contexts."""
    products = linear(B * T, Q, D) + linear(B * S, M, D) + B * T * linear(S, F, W + D) + linear(B * T, S, M)
    numbers = B * T * (Q + M) + B * S * M + Q * D + M * D + F * (W + D)
    passes = 3 if backward else 1
    return Work(passes * products + tangents(B * T, S, D, backward=backward), FLOAT * passes * numbers)


def attending(rows: int, S: int, size: int, memory: int) -> int:
    """The projection of queries, their contexts and the readout of both, without the energies."""
    return linear(rows, size, size) + linear(rows, S, memory) + linear(rows, size + memory, size)


def decoder_pass(B: int, T: int, S: int, E: int, D: int, M: int, *, feeds: bool = True) -> Work:
    """Forward and backward of an LSTM decoder that attends to M features, without its output layer."""
    inputs = E + (D if feeds else 0)
    products = lstm(B * T, inputs, D) + linear(B * S, M, D) + attending(B * T, S, D, M)
    weights = 4 * D * (inputs + D) + M * D + D * D + (D + M) * D
    numbers = 2 * weights + 2 * (B * T * E + B * S * M) + B * T * D
    return Work(3 * products + tangents(B * T, S, D, backward=True), FLOAT * numbers)


def training_step(B: int, T: int, S: int, E: int, D: int, N: int) -> Work:
    """Encoder, decoder, output layer and loss, forward and backward, and Adam."""
    decoder = decoder_pass(B, T, S, E, D, 2 * D).operations
    outside = 2 * lstm(B * S, E, D) + linear(B * T, D, N)
    weights = 2 * N * E + 2 * 4 * D * (E + D) + 4 * D * (E + 2 * D) + 6 * D * D + D * N
    return Work(decoder + 3 * outside, FLOAT * 7 * weights)


def beam(B: int, K: int, T: int, S: int, E: int, D: int, N: int) -> Work:
    """A search of T tokens with K hypotheses per sentence, including the encoder."""
    rows = B * K * T
    once = 2 * lstm(B * S, E, D) + linear(B * S, 2 * D, D)
    steps = lstm(rows, E + D, D) + attending(rows, S, D, 2 * D) + linear(rows, D, N)
    weights = 2 * 4 * D * (E + D) + 4 * D * (E + 2 * D) + 6 * D * D + D * N
    return Work(once + steps + tangents(rows, S, D, backward=False), FLOAT * T * weights)
