"""Masks of dropout as a compiled loop over rows.

    w_lane = Philox(counter = (block, position, item, site), key)[lane],  lane = 0 … 3
    mask[row, feature] = scale if w_lane ≥ threshold else 0,  scale = 1 / (1 - p)

A feature's counter and lane are those of `regard.ops.dropout`: 64 features, a chunk, take 16 blocks of four
words, and word `lane` of block j belongs to feature 16 · lane + j of the chunk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.dropout import GROUP, INCREMENTS, LOW, MULTIPLIERS, ROUNDS, Key, threshold
from regard.ops.eligibility import FLOATS
from regard.ops.kernels.compiled import compiled
from regard.ops.threads import parallel_for

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_K0, _K1 = np.uint32(INCREMENTS[0]), np.uint32(INCREMENTS[1])
_HALF, _GROUP, _ROUNDS = np.uint64(32), GROUP, ROUNDS


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
    mask = torch.empty(len(items), width, dtype=dtype if dtype in FLOATS else torch.float32)
    if mask.numel():
        # unsigned words of 32 bits, whose sums wrap as Philox's do
        words = [np.uint32(word & LOW) for word in (*key, site, threshold(p))]
        out = mask.numpy()
        rows = [row.numpy().astype(np.uint32) for row in (items, positions)]
        parallel_for(_fill, (*rows, out, *words, out.dtype.type(1 / (1 - p))), len(items), 2 * mask.numel())
    return mask.to(dtype)


@compiled
def _fill(
    items: Any,
    positions: Any,
    out: Any,
    key0: Any,
    key1: Any,
    site: Any,
    threshold: Any,
    scale: Any,
    start: int,
    stop: int,
) -> None:
    """out (N, F), for the rows start … stop."""
    width = out.shape[1]
    # a vector for each of the four words
    zero = scale - scale
    words = np.empty((4, _GROUP), np.uint32)
    for row in range(start, stop):
        item, position = items[row], positions[row]
        for chunk in range(0, width, 4 * _GROUP):
            # the words of 16 adjacent blocks, as vectors
            block = np.uint32(chunk // 4)
            for j in range(_GROUP):
                a, b, c, d = np.uint32(block + np.uint32(j)), position, item, site
                k0, k1 = key0, key1
                for _ in range(_ROUNDS):
                    # products of 32 by 32 bits, whose upper halves are mixed with the other words and the key
                    x, y = _M0 * np.uint64(a), _M1 * np.uint64(c)
                    a, c = np.uint32(np.uint32(y >> _HALF) ^ b ^ k0), np.uint32(np.uint32(x >> _HALF) ^ d ^ k1)
                    b, d = np.uint32(y), np.uint32(x)
                    k0, k1 = np.uint32(k0 + _K0), np.uint32(k1 + _K1)
                words[0, j], words[1, j], words[2, j], words[3, j] = a, b, c, d
            # by lanes: adjacent words of a lane are adjacent features, so that vectors are stored unshuffled
            for lane in range(4):
                first = chunk + lane * _GROUP
                for j in range(min(_GROUP, width - first)):
                    out[row, first + j] = scale if words[lane, j] >= threshold else zero
