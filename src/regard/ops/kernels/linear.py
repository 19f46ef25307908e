"""Products with weights of 8 bits.

Each output n has a scale, and so has each row of x:

    s_n = max_k |W_nk| / 127,    V_nk = round(W_nk / s_n)         whole numbers from -127 to 127
    r = max_k |x_k| / 127,       u_k = round(x_k / r) + 128        from 1 to 255: processors multiply unsigned by signed
    y_n = r s_n (Σ_k u_k V_nk - 128 Σ_k V_nk) + b_n

The sums are exact. The result of a row does not depend on other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.kernels.compiled import called, compiled
from regard.ops.kernels.compiled.order import magnitude
from regard.ops.kernels.compiled.tiles import byte_products
from regard.ops.threads import parallel_for

BLOCK = 64
"""Outputs of a part of the work."""


@dataclass(frozen=True, slots=True)
class ByteWeight:
    """V (N, K), s (N,) and 128 Σ_k V_nk (N,)."""

    values: Tensor
    scales: Tensor
    shifts: Tensor


def quantise(weight: Tensor) -> ByteWeight:
    """A weight (N, K) of float32 as bytes."""
    source = weight.detach().contiguous()
    rows, size = source.shape
    values = torch.empty(rows, size, dtype=torch.int8)
    scales, shifts = torch.empty(rows), torch.empty(rows, dtype=torch.int32)
    buffers = (source.numpy(), values.numpy(), scales.numpy(), shifts.numpy())
    parallel_for(_quantise, buffers, rows, 2 * rows * size)
    return ByteWeight(values, scales, shifts)


class ByteProduct:
    """x Wᵀ + b with a weight of bytes, for x of float32 on the CPU; without autograd."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = quantise(weight)

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x Wᵀ + b, of (…, K)."""
        weight = self.weight
        outputs, size = weight.values.shape
        flat = x.reshape(-1, size).contiguous()
        rows = len(flat)
        units, factors = np.empty((rows, size), np.uint8), np.empty(rows, np.float32)
        out = flat.new_empty(rows, outputs)
        sums = np.empty((rows, outputs), np.int32)
        parallel_for(_quantise_rows, (flat.numpy(), units, factors), rows, 2 * rows * size)
        nothing = np.empty(0, np.float32)
        buffers = (
            units,
            factors,
            weight.values.numpy(),
            weight.scales.numpy(),
            weight.shifts.numpy(),
            nothing if bias is None else bias.detach().contiguous().numpy(),
            sums,
            out.numpy(),
        )
        blocks = -(-outputs // BLOCK)
        parallel_for(_multiply, buffers, blocks, rows * outputs * size // 8)
        return out.view(*x.shape[:-1], outputs)


@compiled
def _quantise(source: Any, values: Any, scales: Any, shifts: Any, start: int, stop: int) -> None:
    for n in range(start, stop):
        w, v = source[n], values[n]
        top = np.float32(0)
        for k in range(len(w)):
            top = max(top, abs(w[k]))
        scales[n] = top / np.float32(127)
        inverse = np.float32(127) / top if top > 0 else np.float32(0)
        total = np.int32(0)
        for k in range(len(w)):
            v[k] = np.int8(np.rint(w[k] * inverse))
        for k in range(len(w)):
            total += v[k]
        shifts[n] = np.int32(128) * total


@called
def quantise_row(x: Any, units: Any) -> Any:
    """u of one row, and r, which is NaN if any x is NaN or infinite."""
    # integers in the order of |x|, whose largest is found by vector instructions; NaN is above infinity
    farthest = magnitude(np.float32(0))
    for k in range(len(x)):
        distance = magnitude(x[k])
        farthest = distance if distance > farthest else farthest
    if farthest >= magnitude(np.float32(np.inf)):
        for k in range(len(x)):
            units[k] = 128
        return np.float32(np.nan)
    top = np.float32(0)
    for k in range(len(x)):
        top = max(top, abs(x[k]))
    inverse = np.float32(127) / top if top > 0 else np.float32(0)
    for k in range(len(x)):
        units[k] = np.uint8(np.int32(np.rint(x[k] * inverse)) + 128)
    return top / np.float32(127)


@compiled
def _quantise_rows(x: Any, units: Any, factors: Any, start: int, stop: int) -> None:
    for r in range(start, stop):
        factors[r] = quantise_row(x[r], units[r])


@called
def scale_sums(sums: Any, factor: Any, scales: Any, shifts: Any, bias: Any, out: Any) -> None:
    """y of one row: the sums minus their shifts, scaled, plus b unless it is empty."""
    for n in range(len(out)):
        out[n] = np.float32(sums[n] - shifts[n]) * (factor * scales[n])
    if factor != factor:  # NaN
        for n in range(len(out)):
            out[n] = factor
    if len(bias):
        for n in range(len(out)):
            out[n] += bias[n]


@compiled
def _multiply(
    units: Any,
    factors: Any,
    values: Any,
    scales: Any,
    shifts: Any,
    bias: Any,
    sums: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Outputs `BLOCK`·start to `BLOCK`·stop of all rows."""
    outputs, size = values.shape
    low, high = start * BLOCK, min(stop * BLOCK, outputs)
    rows = len(units)
    byte_products(
        units.ctypes.data, size, rows, np.int64(values.ctypes.data), size, low, high, sums.ctypes.data, outputs
    )
    for r in range(rows):
        some = bias[low:high] if len(bias) else bias
        scale_sums(sums[r, low:high], factors[r], scales[low:high], shifts[low:high], some, out[r, low:high])
