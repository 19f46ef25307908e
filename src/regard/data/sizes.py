"""The lengths of many pairs: how many pairs have which two lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.growing_array import BLOCK, release

MOST_CODES = 1 << 22
"""The most possible pairs of lengths that are counted in a table."""


@dataclass(frozen=True, eq=False)
class Sizes:
    """The kinds of pairs, which are their distinct pairs of lengths, sorted, and how many pairs are of each.

    Args:
        source, target: (kinds,) int64.
        count: (kinds,) int64.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    count: NDArray[np.int64]

    @classmethod
    def of(cls, source: NDArray[Any], target: NDArray[Any], items: NDArray[Any] | None = None) -> Sizes:
        """Those of many pairs.

        Args:
            source, target: (pairs,) the lengths.
            items: the indices of the pairs that count, each as often as it occurs; all if None.

        >>> Sizes.of(np.array([3, 1, 3]), np.array([2, 2, 2])).count
        array([1, 2])
        """
        width = int(target.max(initial=0)) + 1
        size = (int(source.max(initial=0)) + 1) * width
        total = len(source) if items is None else len(items)
        is_dense = _is_dense(size, total)
        codes, counts = np.zeros(0, np.int64), np.zeros(size if is_dense else 0, np.int64)
        for start in range(0, total, BLOCK):
            part = slice(start, start + BLOCK)
            chosen: Any = part if items is None else items[part]
            here = _codes(source[chosen], target[chosen], width)
            if is_dense:
                counts += np.bincount(here, minlength=size)
            else:
                distinct, times = np.unique(here, return_counts=True)
                codes, inverse = np.unique(np.concatenate([codes, distinct]), return_inverse=True)
                counts = np.bincount(inverse, np.concatenate([counts, times])).astype(np.int64)
            release(source, target)
        if is_dense:
            codes = np.flatnonzero(counts)
            counts = counts[codes]
        return cls(codes // width, codes % width, counts)

    def __len__(self) -> int:
        """The number of pairs."""
        return int(self.count.sum())

    def numbering(self) -> Callable[[NDArray[Any], NDArray[Any]], NDArray[np.integer[Any]]]:
        """The function from the lengths of pairs to the numbers of their kinds."""
        width = int(self.target.max(initial=0)) + 1
        codes = _codes(self.source, self.target, width)
        size = int(codes.max(initial=-1)) + 1
        if not _is_dense(size, len(self)):
            return lambda source, target: np.searchsorted(codes, _codes(source, target, width))
        table = np.zeros(size, np.int32)
        table[codes] = np.arange(len(codes))
        return lambda source, target: table[_codes(source, target, width)]

    def within(self, most: int) -> Sizes:
        """Without those of pairs that training leaves out: of more than `most` symbols, or with an empty side."""
        used = (np.minimum(self.source, self.target) > 0) & (np.maximum(self.source, self.target) <= most)
        return Sizes(self.source[used], self.target[used], self.count[used])

    def median(self, values: NDArray[Any]) -> float:
        """The median over all pairs of a value of each kind."""
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(self.count[order])
        middle = np.searchsorted(ends, [(len(self) - 1) // 2, len(self) // 2], "right")
        return float(values[order[middle]].mean())


def _is_dense(size: int, total: int) -> bool:
    """Whether a table of all possible pairs of lengths is worth its memory."""
    return size <= min(total, MOST_CODES)


def _codes(source: NDArray[Any], target: NDArray[Any], width: int) -> NDArray[np.int64]:
    codes: NDArray[np.int64] = source.astype(np.int64) * width + target
    return codes
