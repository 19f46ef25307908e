"""Factored kernels for the CPU: no tangent and no tensor of size T·S·D.

tanh(x) = 1 - 2 / (1 + e^{2x}) and e^{2(q+k)} = e^{2q} · e^{2k}: with A = e^{2q} and B = e^{2k} computed once a row,

    e_ts = Σ_d v_d - 2 Σ_d v_d r_tsd,   r = 1 / (1 + A B),   1 - tanh² = 4 r (1 - r).

Numerics: exact to rounding while A and B are normal numbers, |q|, |k| ≤ `REACH`; products are cut at `LARGE`, where
tanh is 1 to the last digit. The absolute error is near ε Σ|v|; where tanh is near 0 the plain
formula's is smaller relative to the result.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from regard.ops.threads import spread

REACH = {torch.float32: 43.0, torch.float64: 350.0}
"""Inputs beyond this leave the range in which e^{2x} is a normal number."""
LARGE = {torch.float32: np.float32(1e9), torch.float64: np.float64(1e18)}
GROUP = 1 << 15
"""Keys of a group, S·D of them, should stay in a core's cache: wider groups are cut along D."""

_compiled: Any = numba.njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"nsz", "arcp", "contract", "reassoc"}
)


@intrinsic  # type: ignore[untyped-decorator]
def _times_power(context: Any, factor: Any, shifted: Any) -> Any:
    """factor · 2ⁿ in float32, where shifted = n + `_SHIFT`: n stands in its last bits and is added to the exponent."""

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        bits = [builder.bitcast(x, ir.IntType(32)) for x in given]
        exponent = builder.shl(bits[1], ir.Constant(ir.IntType(32), 23))
        return builder.bitcast(builder.add(bits[0], exponent), ir.FloatType())

    return types.float32(types.float32, types.float32), make


@intrinsic  # type: ignore[untyped-decorator]
def _magnitude(context: Any, x: Any) -> Any:
    """The bits of |x| as an int32: larger for a larger |x|, for infinity larger still and for NaN largest."""

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        return builder.and_(builder.bitcast(given[0], ir.IntType(32)), ir.Constant(ir.IntType(32), 0x7FFFFFFF))

    return types.int32(types.float32), make


_SHIFT = np.float32(1.5 * 2**23)
_INVERSE, _HIGH, _LOW = np.float32(1 / np.log(2)), np.float32(0.693359375), np.float32(np.log(2) - 0.693359375)
_TAYLOR = tuple(np.float32(1 / math.factorial(n)) for n in range(7, 0, -1))
_FARTHEST = int(np.float32(REACH[torch.float32]).view(np.int32))


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})  # type: ignore[untyped-decorator]
def _double_exponential(x: Any, out: Any, start: int, stop: int) -> int:
    """out ← e^{2x} in float32: 2ⁿ eᶠ with |f| ≤ ln 2 / 2 and Taylor's polynomial of degree 7; within an ulp.

    Returns:
        The largest `_magnitude`; beyond `_FARTHEST` the results mean nothing.
    """
    farthest = np.int32(0)
    given, part = x[start:stop], out[start:stop]
    for i in range(len(given)):
        magnitude = _magnitude(given[i])
        farthest = magnitude if magnitude > farthest else farthest
        y = given[i] + given[i]
        shifted = y * _INVERSE + _SHIFT
        n = shifted - _SHIFT
        f = (y - n * _HIGH) - n * _LOW
        p = _TAYLOR[0]
        p = p * f + _TAYLOR[1]
        p = p * f + _TAYLOR[2]
        p = p * f + _TAYLOR[3]
        p = p * f + _TAYLOR[4]
        p = p * f + _TAYLOR[5]
        p = p * f + _TAYLOR[6]
        p = p * f + np.float32(1)
        part[i] = _times_power(p, shifted)
    return farthest


@_compiled  # type: ignore[untyped-decorator]
def _energies(a: Any, b: Any, v: Any, total: Any, large: Any, out: Any, start: int, stop: int) -> None:
    """out[n, t, s] for the rows start … stop of all n·T: a (N, T, D), b (N, S, D), v (H, D), total (H)."""
    steps, size, positions = a.shape[1], a.shape[2], b.shape[1]
    one = large / large
    for row in range(start, stop):
        n, t = row // steps, row % steps
        head = n % v.shape[0]
        for s in range(positions):
            share = large - large
            for d in range(size):
                product = a[n, t, d] * b[n, s, d]
                share += v[head, d] / (one + (large if product > large else product))
            out[n, t, s] = total[head] - share - share


@_compiled  # type: ignore[untyped-decorator]
def _gradients(
    a: Any, b: Any, g: Any, large: Any, by_query: Any, by_keys: Any, by_v: Any, start: int, stop: int
) -> None:
    """Σ_s g r (1-r), Σ_t g r (1-r) and Σ_ts g r, added to zeros, for the groups start … stop.

    a (C, N, T, D), b (C, N, S, D): C slices of all features; g (N, T, S); by_v (C, N, D).
    """
    groups, steps, size, positions = a.shape[1], a.shape[2], a.shape[3], b.shape[2]
    one = large / large
    for group in range(start, stop):
        c, n = group // groups, group % groups
        for t in range(steps):
            for s in range(positions):
                gradient = g[n, t, s]
                for d in range(size):
                    product = a[c, n, t, d] * b[c, n, s, d]
                    r = one / (one + (large if product > large else product))
                    u = gradient * r
                    w = u - u * r
                    by_v[c, n, d] += u
                    by_query[c, n, t, d] += w
                    by_keys[c, n, s, d] += w


def energies(query: Tensor, keys: Tensor, v: Tensor) -> Tensor | None:
    """(B, *heads, T, S) from float32 or float64; None when an input is beyond reach."""
    a, b, heads = _exponential(query, 1), _exponential(keys, 1), v.detach().reshape(-1, v.shape[-1]).contiguous()
    if a is None or b is None:
        return None
    out = v.new_empty(a.shape[1], a.shape[2], b.shape[2])
    given = [x.numpy() for x in (a[0], b[0], heads, heads.sum(1))]
    large, result = LARGE[v.dtype], out.numpy()
    rows = a.shape[1] * a.shape[2]
    spread(lambda start, stop: _energies(*given, large, result, start, stop), rows, rows * b.shape[2] * b.shape[3])
    return out.view(query.shape[0], *v.shape[:-1], query.shape[1], keys.shape[1])


def gradients(gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """By query, by keys and by v, of the shapes of each; None when an input is beyond reach."""
    heads = v.reshape(-1, v.shape[-1])
    groups, size = query.shape[0] * len(heads), v.shape[-1]
    slices = _slices(groups, keys.shape[1], size)
    a, b = _exponential(query, slices), _exponential(keys, slices)
    if a is None or b is None:
        return None
    g = gradient.reshape(groups, query.shape[1], keys.shape[1]).contiguous()
    by_query, by_keys = torch.zeros_like(a), torch.zeros_like(b)
    by_v = v.new_zeros(slices, groups, size // slices)
    given = [x.numpy() for x in (a, b, g)]
    results = [x.numpy() for x in (by_query, by_keys, by_v)]
    large = LARGE[v.dtype]
    spread(
        lambda start, stop: _gradients(*given, large, *results, start, stop),
        slices * groups,
        groups * query.shape[1] * b.shape[2] * size,
    )
    fourfold = 4 * v
    shares = by_v.movedim(0, 1).reshape(query.shape[0], len(heads), size).sum(0)
    total = g.view(query.shape[0], len(heads), -1).sum((0, 2))
    return (
        _joined(by_query, query).mul_(fourfold),
        _joined(by_keys, keys).mul_(fourfold),
        (total[:, None] - 2 * shares).view_as(v),
    )


def within_reach(*inputs: Tensor) -> bool:
    """Whether e^{2x} is a normal number for all x; NaN is not within reach."""
    return all(bool(x.detach().abs().amax() <= REACH[x.dtype]) for x in inputs if x.numel())


def _exponential(x: Tensor, slices: int) -> Tensor | None:
    """e^{2x} of (B, S, *heads, D) as (slices, B·heads, S, D / slices), contiguous; None when x is beyond reach."""
    rows = x.detach() if x.dim() == 4 else x.detach()[:, :, None]
    sliced = rows.unflatten(-1, (slices, -1)).permute(3, 0, 2, 1, 4).contiguous()
    if x.dtype != torch.float32:
        return (sliced * 2).exp_().flatten(1, 2) if within_reach(x) else None
    result = torch.empty_like(sliced)
    given, out = sliced.view(-1).numpy(), result.view(-1).numpy()
    farthest: list[int] = []
    spread(
        lambda start, stop: farthest.append(_double_exponential(given, out, start, stop)), len(given), 4 * len(given)
    )
    return result.flatten(1, 2) if max(farthest) <= _FARTHEST else None


def _joined(x: Tensor, like: Tensor) -> Tensor:
    """(slices, B·heads, S, D / slices) as `like`, (B, S, *heads, D)."""
    return x.unflatten(1, (like.shape[0], -1)).permute(1, 3, 2, 0, 4).reshape(like.shape).contiguous()


def _slices(groups: int, positions: int, size: int) -> int:
    """Into how many slices the features are cut: for the cache, and so that every thread has something to do."""
    wanted = max(positions * size // GROUP, -(-torch.get_num_threads() // max(groups, 1)), 1)
    return next((c for c in range(wanted, size + 1) if size % c == 0), 1) if size else 1
