"""Dropout whose mask belongs to the item, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import kernel_reason, numba_reason, triton_reason
from regard.shapes import Float, Int

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
INCREMENTS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 7
LOW = 0xFFFFFFFF
"""A mask of 32 bits; words are int64 from 0 to 2³² − 1."""
GROUP = 16
"""Adjacent features that take the same one of Philox's four words, of adjacent counters."""
Words = tuple[Tensor, Tensor, Tensor, Tensor]
Key = tuple[int, int | Tensor]
"""A seed and a step; in recorded steps on a GPU the step is a 0-d tensor."""


def dropout(
    x: Float[Tensor, "N F"],
    items: Int[Tensor, " N"],
    positions: Int[Tensor, " N"],
    p: float = 0.5,
    key: Key = (0, 0),
    site: int = 0,
) -> Float[Tensor, "N F"]:
    """x_nf / (1 − p), or 0 with probability p, by a hash of (key, site, item, position, feature).

    So the mask depends neither on other rows nor on the device or earlier draws.

    Args:
        items: the item of each row; its lower 32 bits are used.
        positions: the position in the item; its lower 32 bits are used.
        p: below 1.
        key: two numbers of 32 bits, a seed and a step.
        site: 32 bits that distinguish the sites of a model.

    Source: Srivastava et al. 2014, Dropout; the hash is `philox`.

    >>> items, positions = torch.tensor([3, 8, 3]), torch.tensor([0, 0, 0])
    >>> dropout(torch.ones(3, 8), items, positions)
    tensor([[0., 0., 0., 0., 0., 0., 2., 2.],
            [2., 0., 2., 2., 2., 2., 2., 2.],
            [0., 0., 0., 0., 0., 0., 2., 2.]])
    """
    width = int(x.shape[1])  # torch.jit.trace makes it a tensor
    return x * dropout_mask(items, positions, width, p=p, key=key, site=site, dtype=x.dtype)


def dropout_mask(
    items: Int[Tensor, " N"],
    positions: Int[Tensor, " N"],
    width: int,
    *,
    p: float,
    key: Key,
    site: int,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "N F"]:
    """The mask that `dropout` multiplies by, 0 or 1 / (1 − p), for F = `width` features."""
    make = MASKS[choose(DROPOUT, items).name]
    mask: Tensor = make(items, positions, width, p=p, key=key, site=site, dtype=dtype)
    return mask


def philox(counter: Words, key: Key, *, rounds: int = ROUNDS) -> Words:
    """Four random words of 32 bits, from a counter of four words and a key of two: Philox-4x32.

    Args:
        counter: int64 tensors of one shape, from 0 to 2³² − 1.
        key: from 0 to 2³² − 1.
        rounds: 7 are the fewest that pass all tests of BigCrush, 10 the authors' recommendation.

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


def reference(
    items: Int[Tensor, " N"],
    positions: Int[Tensor, " N"],
    width: int,
    *,
    p: float,
    key: Key,
    site: int,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "N F"]:
    """As `dropout_mask`, in torch's integers."""
    device = items.device
    # counters (N, blocks): whole chunks of 4 · GROUP features; the last is cut to the width
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
    """The number of words of 32 bits for which an element is dropped: those below it.

    >>> threshold(0.25) == 2**30
    True
    """
    return min(round(p * 2**32), LOW)


def _product(x: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """The upper and the lower 32 bits of a product of 32 bits by 32; int64 holds 48 bits by 16 without a sign."""
    high, low = multiplier * (x >> 16), multiplier * (x & 0xFFFF)
    middle = high + (low >> 16)
    return middle >> 16, ((middle << 16) | (low & 0xFFFF)) & LOW


TRITON, NUMBA = "regard.ops.kernels.dropout_triton", "regard.ops.kernels.dropout"
MASKS = {"triton": loaded(TRITON, "dropout_mask"), "numba": loaded(NUMBA, "dropout_mask"), "reference": reference}


def _by(
    name: str, x: Tensor, items: Tensor, positions: Tensor, p: float = 0.5, key: Key = (0, 0), site: int = 0
) -> Tensor:
    mask: Tensor = MASKS[name](items, positions, x.shape[1], p=p, key=key, site=site, dtype=x.dtype)
    return x * mask


def _triton_reason(*inputs: Any, **options: Any) -> str | None:
    return kernel_reason(*inputs) or triton_reason(TRITON, *inputs)


def _numba_reason(*inputs: Any, **options: Any) -> str | None:
    return kernel_reason(*inputs) or numba_reason(NUMBA, *inputs)


DROPOUT = (
    Implementation("triton", partial(_by, "triton"), _triton_reason),
    Implementation("numba", partial(_by, "numba"), _numba_reason),
    Implementation("reference", partial(_by, "reference")),
)
