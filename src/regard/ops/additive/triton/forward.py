"""Energies on a GPU, a tile of steps and positions in every program.

    tanh:       a_td = e^{2 q_td},  b_sd = e^{2 k_sd},  r = 1 / (1 + a_td b_sd),  e_ts = 2 Σ_d v_d (½ - r)
    beyond:     the same with e^{2 (q_td + k_sd)} in place of a_td b_sd, where one of them is no normal number
    rectifier:  e_ts = Σ_d v_d φ(q_td + k_sd),  φ(x) = x, or SLOPE · x below 0

r = 1 / (1 + p) with p cut at LARGE, where tanh is 1 to the last digit.
"""

# mypy: disable-error-code="no-untyped-def,import-untyped,import-not-found,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from regard.ops.additive.triton.parts import one_more, rectify


@triton.jit
def energies_kernel(
    q,
    k,
    a,
    b,
    v,
    far,
    out,
    heads,
    steps,
    positions,
    size,
    TANGENT: tl.constexpr,
    SLOPE: tl.constexpr,
    LARGE: tl.constexpr,
    STEPS: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    """out (groups, T, S) of q (groups, T, D), k (groups, S, D), a (groups, D, T), b (groups, D, S), v (heads, D).

    A program for every tile of STEPS × POSITIONS energies of a group.
    Two features share a division; an odd last one stands beside itself with a v of 0.
    """
    # which tile: tiles of positions beside each other read the same rows of a; int64, as offsets may be beyond 2³¹
    across, down = tl.cdiv(positions, POSITIONS), tl.cdiv(steps, STEPS)
    tile = tl.program_id(0) % (across * down)
    group = (tl.program_id(0) // (across * down)).to(tl.int64)
    t = tile // across * STEPS + tl.arange(0, STEPS)
    s = tile % across * POSITIONS + tl.arange(0, POSITIONS)
    # from here on the pointers are those of the group, which is head `group % heads` of a sentence
    v += group % heads * size
    q += group * steps * size
    k += group * positions * size
    a += group * size * steps
    b += group * size * positions
    total = tl.zeros([STEPS, POSITIONS], dtype=v.dtype.element_ty)
    if TANGENT:
        if tl.load(far + group) == 0:
            # a (D, T) and b (D, S): the tile's steps, and its positions, are side by side in memory at each feature
            for d in range(0, size, 2):
                e = tl.minimum(d + 1, size - 1)
                v0, v1 = tl.load(v + d), tl.where(d + 1 < size, tl.load(v + e), 0.0)
                a0 = tl.load(a + d * steps + t, mask=t < steps, other=0.0)
                a1 = tl.load(a + e * steps + t, mask=t < steps, other=0.0)
                b0 = tl.load(b + d * positions + s, mask=s < positions, other=0.0)
                b1 = tl.load(b + e * positions + s, mask=s < positions, other=0.0)
                # v0 / x0 + v1 / x1 = (v0 x1 + v1 x0) / (x0 x1) over (STEPS, POSITIONS): one division for two features
                x0 = one_more(a0[:, None] * b0[None, :], LARGE)
                x1 = one_more(a1[:, None] * b1[None, :], LARGE)
                total += 0.5 * (v0 + v1) - (v0 * x1 + v1 * x0) / (x0 * x1)
        else:
            # a group beyond reach has no usable powers: q (T, D) and k (S, D) as they are, an exponential each
            for d in range(0, size):
                x = tl.load(q + t * size + d, mask=t < steps, other=0.0)[:, None]
                x += tl.load(k + s * size + d, mask=s < positions, other=0.0)[None, :]
                total += tl.load(v + d) * (0.5 - 1 / one_more(tl.exp(x + x), LARGE))
        total += total  # the 2 of 2 Σ v (½ - r)
    else:
        # a rectifier needs no powers: a and b are q and k themselves, laid out like them
        for d in range(0, size):
            x = tl.load(a + d * steps + t, mask=t < steps, other=0.0)[:, None]
            x += tl.load(b + d * positions + s, mask=s < positions, other=0.0)[None, :]
            total += tl.load(v + d) * rectify(x, SLOPE)
    inside = (t < steps)[:, None] & (s < positions)[None, :]
    tl.store(out + group * steps * positions + t[:, None] * positions + s[None, :], total, mask=inside)


@triton.jit
def step_kernel(
    q,
    k,
    v,
    out,
    heads,
    positions,
    size,
    TANGENT: tl.constexpr,
    SLOPE: tl.constexpr,
    LARGE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """out (groups, 1, S) of one step, q (groups, 1, D): nothing would be shared, so nothing is prepared.

    A program for every `ROWS` positions of a group.
    """
    # features are the columns here: a position's key is read side by side, as it stands in memory
    tiles = tl.cdiv(positions, ROWS)
    group = (tl.program_id(0) // tiles).to(tl.int64)
    s = tl.program_id(0) % tiles * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS, COLUMNS], dtype=v.dtype.element_ty)
    for start in range(0, size, COLUMNS):
        d = start + tl.arange(0, COLUMNS)
        inside = (s < positions)[:, None] & (d < size)[None, :]
        x = tl.load(k + group * positions * size + s[:, None] * size + d[None, :], mask=inside, other=0.0)
        x += tl.load(q + group * size + d, mask=d < size, other=0.0)[None, :]
        # v is 0 beyond D, so that those columns add nothing
        factor = tl.load(v + group % heads * size + d, mask=d < size, other=0.0)[None, :]
        if TANGENT:
            total += factor * (1 - 2 / one_more(tl.exp(x + x), LARGE))
        else:
            total += factor * rectify(x, SLOPE)
    # the columns are summed once, after the loop: each has collected every COLUMNS-th feature
    tl.store(out + group * positions + s, tl.sum(total, 1), mask=s < positions)
