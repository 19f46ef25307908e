"""Philox, a hash of a counter under a key, and the masks that are made of it, in torch's integers."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import Float, Int

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
INCREMENTS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 7
LOW = 0xFFFFFFFF
"""The lower 32 bits; words are int64 from 0 to 2³² − 1."""
GROUP = 16
"""So many neighbouring features take the same one of Philox's four words, of neighbouring counters."""
Words = tuple[Tensor, Tensor, Tensor, Tensor]


def philox(counter: Words, key: tuple[int, int], *, rounds: int = ROUNDS) -> Words:
    """Four random words of 32 bits, from a counter of four words and a key of two: Philox-4x32.

    Args:
        counter: int64 tensors of one shape, from 0 to 2³² − 1.
        key: from 0 to 2³² − 1.
        rounds: 7 are the fewest that pass all tests of BigCrush, 10 are the authors' advice for unknown uses.

    Source: Salmon, Moraes, Dror & Shaw 2011, Parallel random numbers: as easy as 1, 2, 3, section 4.3 and table 2.
    """
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(rounds):
        high_a, low_a = _product(a, MULTIPLIERS[0])
        high_c, low_c = _product(c, MULTIPLIERS[1])
        a, b, c, d = high_c ^ b ^ k0, low_c, high_a ^ d ^ k1, low_a
        k0, k1 = (k0 + INCREMENTS[0]) & LOW, (k1 + INCREMENTS[1]) & LOW
    return a, b, c, d


def dropout_mask(
    items: Int[Tensor, " N"],
    positions: Int[Tensor, " N"],
    width: int,
    *,
    p: float,
    key: tuple[int, int],
    site: int,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "N F"]:
    """As `ops.dropout_mask`."""
    device = items.device
    # counters (N, blocks): whole chunks of 4 · GROUP features, of which the last may be cut
    blocks = torch.arange(-(-width // (4 * GROUP)) * GROUP, device=device)
    shape = len(items), len(blocks)
    position, item = ((word.long() & LOW)[:, None].expand(shape) for word in (positions, items))
    last = torch.full_like(position, site & LOW)
    words = philox((blocks.expand(shape), position, item, last), (key[0] & LOW, key[1] & LOW))
    # in a chunk first the GROUP words `a` of its blocks, then their words `b`, `c` and `d`
    grouped = torch.stack([word.unflatten(1, (-1, GROUP)) for word in words], 2)  # (N, chunks, 4, GROUP)
    kept = grouped.flatten(1)[:, :width] >= threshold(p)
    return kept.to(dtype) * (1 / (1 - p))


def threshold(p: float) -> int:
    """The number of words of 32 bits that mean "dropped".

    >>> threshold(0.25) == 2**30
    True
    """
    return min(round(p * 2**32), LOW)


def _product(x: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """The upper and the lower 32 bits of a product of 32 bits by 32; int64 holds 48 bits by 16 without a sign."""
    high, low = multiplier * (x >> 16), multiplier * (x & 0xFFFF)
    middle = high + (low >> 16)
    return middle >> 16, ((middle << 16) | (low & 0xFFFF)) & LOW
