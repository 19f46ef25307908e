"""A learned bias for each range of distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.windows.bias import AbstractBias
from regard.errors import ShapeError
from regard.shapes import Float, Int


class BucketBiasWindow(AbstractBias):
    """T5's relative positions: e_ij + b_{h, bucket(j - i)}.

    In each direction the first half of the buckets hold one distance |i - j| each; the others hold ranges that grow
    logarithmically, the last one every distance from `max_distance` on. The biases start at 0.

    Args:
        num_heads: H of the score, or 1 for a bias that heads share.
        num_buckets: how many there are, both directions together.
        max_distance: roughly where the last bucket begins; the logarithm gives the exact boundary.
        bidirectional: half of the buckets for each direction, as in an encoder; otherwise all positions after the
            query share the bucket of distance 0, as in a decoder.

    Source: Raffel et al. 2020 (arXiv 1910.10683), section 2.1, and the authors' code, with these differences: there the
    bias is shared by all layers, energies are not divided by √d, and boundaries are computed in float32 (here in
    integers).
    """

    sources = ("raffel2020",)

    is_bounded = False

    boundaries: Tensor

    def __init__(
        self, num_heads: int, *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__(num_heads)
        one_way = num_buckets // 2 if bidirectional else num_buckets
        if (bidirectional and num_buckets % 2) or one_way < 2:
            needed = "an even number from 4" if bidirectional else "2 or more"
            raise ShapeError(f"num_buckets={num_buckets} must be {needed} (bidirectional={bidirectional}).")
        if max_distance <= one_way // 2:
            raise ShapeError(
                f"max_distance={max_distance} must be above {one_way // 2}, the distances that have their own bucket."
            )
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.one_way = one_way
        self.register_buffer("boundaries", torch.tensor(_boundaries(one_way, max_distance)), persistent=False)
        self.biases = nn.Parameter(torch.zeros(num_buckets, num_heads))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Also recomputes the boundaries: they are not saved, and `to_empty` leaves them undefined."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if not self.boundaries.is_meta:
            self.boundaries.copy_(torch.tensor(_boundaries(self.one_way, self.max_distance)))
        return self

    def buckets(self, offset: Int[Tensor, "*rows"]) -> Int[Tensor, "*rows"]:
        """The bucket of every offset j - i.

        >>> BucketBiasWindow(1, num_buckets=8, max_distance=6).buckets(torch.tensor([-9, -3, -2, -1, 0, 1, 2, 9]))
        tensor([3, 2, 2, 1, 0, 5, 6, 7])
        """
        distance = offset.abs() if self.bidirectional else (-offset).clamp(min=0)
        bucket = torch.bucketize(distance, self.boundaries, right=True)
        return bucket + (offset > 0) * (len(self.boundaries) + 1) if self.bidirectional else bucket

    def bias(self, offset: Int[Tensor, "R G W"], dtype: torch.dtype) -> Float[Tensor, "R H W"]:
        """b_h of the bucket."""
        heads = max(self.num_heads, offset.shape[1])
        biases = self.biases.T.expand(offset.shape[0], heads, -1)
        return biases.gather(2, self.buckets(offset).expand(-1, heads, -1)).to(dtype)


def _boundaries(num_buckets: int, max_distance: int) -> list[int]:
    """Where each bucket but the first begins: n is in bucket E + k if log(n/E) / log(max/E) ≥ k / (N - E), E = N/2.

    >>> _boundaries(8, 64)
    [1, 2, 3, 4, 8, 16, 32]
    """
    exact = num_buckets // 2
    ranges = num_buckets - exact
    begins = list(range(1, exact + 1))
    for k in range(1, ranges):
        n = begins[-1]
        while n**ranges * exact**k < max_distance**k * exact**ranges:
            n += 1
        begins.append(n)
    return begins
