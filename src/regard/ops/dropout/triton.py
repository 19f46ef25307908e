"""Masks of dropout on a GPU: a program for every 64 features of some rows."""

# mypy: disable-error-code="no-untyped-def,import-untyped,import-not-found,untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.ops.dropout.reference import GROUP, LOW, ROUNDS, threshold

ROWS = 16


def dropout_mask(
    items: Tensor,
    positions: Tensor,
    width: int,
    *,
    p: float,
    key: tuple[int, int],
    place: int,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """As `ops.dropout_mask`."""
    mask = torch.empty(len(items), width, dtype=dtype, device=items.device)
    if mask.numel():
        seed = (key[1] & LOW) << 32 | key[0] & LOW
        scale = 1 / (1 - p)
        inner = scale if dtype == torch.float32 else 1.0  # a kernel is given numbers as float32
        grid = triton.cdiv(len(items), ROWS), triton.cdiv(width, 4 * GROUP)
        with torch.cuda.device_of(items):
            mask_kernel[grid](
                items, positions, mask, len(items), width, seed - (seed >> 63 << 64), place & LOW, threshold(p),
                inner, ROWS=ROWS, GROUP=GROUP, ROUNDS=ROUNDS,
            )  # fmt: skip
        if inner != scale:
            mask.mul_(scale)
    return mask


@triton.jit
def mask_kernel(
    items,
    positions,
    out,
    count,
    width,
    seed,
    place,
    threshold,
    scale,
    ROWS: tl.constexpr,
    GROUP: tl.constexpr,
    ROUNDS: tl.constexpr,
):
    """out (count, width) ← scale where Philox of (block, position, item, place) is `threshold` or more, else 0."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < count
    item = tl.load(items + row, mask=inside, other=0)[:, None].to(tl.uint32)
    position = tl.load(positions + row, mask=inside, other=0)[:, None].to(tl.uint32)
    j = tl.arange(0, GROUP)[None, :]
    nothing = tl.zeros([ROWS, GROUP], dtype=tl.uint32)
    block = (tl.program_id(1) * GROUP + j).to(tl.uint32) + nothing
    last = nothing + place.to(tl.uint32)
    a, b, c, d = tl.philox(seed, block, position + nothing, item + nothing, last, ROUNDS)
    least = threshold.to(tl.uint32)
    start = out + row[:, None].to(tl.int64) * width
    feature = tl.program_id(1) * 4 * GROUP + j
    for lane in tl.static_range(4):
        word = a if lane == 0 else b if lane == 1 else c if lane == 2 else d
        kept = tl.where(word >= least, scale, 0.0)
        f = feature + lane * GROUP
        tl.store(start + f, kept.to(out.dtype.element_ty), mask=inside[:, None] & (f < width))
