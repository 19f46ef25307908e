"""Masks of dropout on a GPU: a program for every 64 features of some rows.

    w_lane = Philox(counter = (block, position, item, site), key)[lane],  lane = 0 … 3
    mask[row, feature] = scale if w_lane ≥ threshold else 0
    feature = 64 · chunk + 16 · lane + j,  block = 16 · chunk + j

The program of a chunk has 16 blocks of every row, j = 0 … 15, which are 64 features.
"""

# mypy: disable-error-code="no-untyped-def,import-untyped,import-not-found,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.ops.dropout import GROUP, LOW, ROUNDS, Key, threshold

ROWS = 16


def dropout_mask(
    items: Tensor,
    positions: Tensor,
    width: int,
    *,
    p: float,
    key: Key,
    site: int,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """As `ops.dropout_mask`."""
    mask = torch.empty(len(items), width, dtype=dtype, device=items.device)
    if mask.numel():
        # the key as a signed number of 64 bits; in a recorded step the kernel reads it from a tensor
        seed: Any = (key[1] & LOW) << 32 | key[0] & LOW
        is_read = isinstance(seed, Tensor)
        scale = 1 / (1 - p)
        # kernels take numbers as float32: the scale is rounded to half types here
        half = torch.tensor(scale, dtype=torch.float32, device="cpu").to(dtype).item()
        inner = 1.0 if dtype == torch.float64 else half
        grid = triton.cdiv(len(items), ROWS), triton.cdiv(width, 4 * GROUP)
        with torch.cuda.device_of(items):
            mask_kernel[grid](
                items, positions, mask, len(items), width, seed if is_read else seed - (seed >> 63 << 64), site & LOW,
                threshold(p), inner, IS_READ=is_read, ROWS=ROWS, GROUP=GROUP, ROUNDS=ROUNDS,
            )  # fmt: skip
        if dtype == torch.float64:
            mask.mul_(scale)  # in full precision
    return mask


# triton would compile a kernel of its own for drawn numbers that are 1 or a multiple of 16
@triton.jit(do_not_specialize=["seed", "site", "threshold"])
def mask_kernel(
    items,
    positions,
    out,
    count,
    width,
    seed,
    site,
    threshold,
    scale,
    IS_READ: tl.constexpr,
    ROWS: tl.constexpr,
    GROUP: tl.constexpr,
    ROUNDS: tl.constexpr,
):
    """out (count, width) ← scale where Philox of (block, position, item, site) is `threshold` or more, else 0."""
    if IS_READ:
        seed = tl.load(seed)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < count
    item = tl.load(items + row, mask=inside, other=0)[:, None].to(tl.uint32)
    position = tl.load(positions + row, mask=inside, other=0)[:, None].to(tl.uint32)
    j = tl.arange(0, GROUP)[None, :]
    # the loop over Philox's rounds needs its four counters in one shape (ROWS, GROUP) and type
    zeros = tl.zeros([ROWS, GROUP], dtype=tl.uint32)
    block = (tl.program_id(1) * GROUP + j).to(tl.uint32) + zeros
    last = zeros + site.to(tl.uint32)
    a, b, c, d = tl.philox(seed, block, position + zeros, item + zeros, last, ROUNDS)
    least = threshold.to(tl.uint32)  # unsigned as the words
    start = out + row[:, None].to(tl.int64) * width  # int64: count · width may be beyond 2³¹
    feature = tl.program_id(1) * 4 * GROUP + j
    # words `lane` of the 16 blocks are 16 adjacent features
    for lane in tl.static_range(4):
        word = a if lane == 0 else b if lane == 1 else c if lane == 2 else d
        kept = tl.where(word >= least, scale, 0.0)
        f = feature + lane * GROUP
        tl.store(start + f, kept.to(out.dtype.element_ty), mask=inside[:, None] & (f < width))
