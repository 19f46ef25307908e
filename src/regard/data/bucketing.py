"""Batches of items of similar length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.data.growing_array import BLOCK, release, scratch
from regard.data.sizes import Sizes
from regard.errors import RegardError

MOST_SHUFFLED = 1 << 27
"""The most bytes of shuffled items in memory."""
RATIO = 1.05
"""The ratio of a bucket's longest to its shortest items, by their larger side."""


def bucket(
    source_lengths: ArrayLike,
    target_lengths: ArrayLike,
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
    rank: int = 0,
    world_size: int = 1,
    shuffle: bool = True,
    items: NDArray[np.integer[Any]] | None = None,
    extra: int = 0,
) -> Batches:
    """The batches of one epoch: a pure function of its arguments, so that a run can resume at any batch.

    Items are sorted into buckets of geometric width by the length of their larger side, with edges that move in every
    epoch, and within a bucket by target minus source length, ascending and descending in turn, so that neighbours stay
    similar across edges; equal items are in random order. The sorted items are cut into batches, which are shuffled.
    The order takes four bytes of memory for each item, or of disk space if there are many.

    Over all ranks every item occurs exactly once. The largest batches are halved until every rank has the same number
    of batches; with fewer items than ranks, the last ranks have none.

    Args:
        source_lengths: (items,) symbols of each source.
        target_lengths: (items,) symbols of each target.
        batch_tokens: the most symbols in a batch, on its larger side with padding. A longer item is a batch by itself.
        seed: together with `epoch`, the seed of all random numbers.
        epoch: counted from 0.
        rank: the number of the calling process.
        world_size: the number of processes that share the epoch.
        shuffle: if False, batches are ordered by length and are the same in every epoch.
        items: the indices of the items of the epoch, in which an item may occur several times; all if None.
        extra: symbols besides the lengths, such as an end symbol.

    Returns:
        The indices of the items in each batch of this rank.

    Raises:
        RegardError: if the numbers of lengths differ, or the rank is outside the world.
    """
    source, target = np.asarray(source_lengths), np.asarray(target_lengths)
    if source.shape != target.shape or source.ndim != 1:
        raise RegardError(
            f"source_lengths and target_lengths need one number per item; got shapes {source.shape}, {target.shape}."
        )
    if not 0 <= rank < world_size:
        raise RegardError(f"rank must be at least 0 and below world_size={world_size}; got {rank}.")
    if batch_tokens < 1:
        raise RegardError(f"batch_tokens must be at least 1; got {batch_tokens}.")
    random = np.random.default_rng((seed, epoch))
    order, lengths = _ordered(source, target, items, random if shuffle else None, extra)
    starts, stops = _even(*_cut(lengths, batch_tokens), world_size)
    chosen = random.permutation(len(starts)) if shuffle else np.arange(len(starts))
    chosen = chosen[rank::world_size]
    return Batches(order, starts[chosen], stops[chosen])


class Batches(Sequence[NDArray[np.int64]]):
    """Arrays of indices: parts of one array.

    Args:
        order: (items,) indices.
        starts, stops: (batches,) the part of `order` of each batch.
    """

    def __init__(self, order: NDArray[Any], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        self.order, self.starts, self.stops = order, starts, stops

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> NDArray[np.int64]: ...
    @overload
    def __getitem__(self, index: slice) -> Batches: ...
    def __getitem__(self, index: int | slice) -> NDArray[np.int64] | Batches:
        if isinstance(index, slice):
            return Batches(self.order, self.starts[index], self.stops[index])
        batch = self.order[self.starts[index] : self.stops[index]].astype(np.int64)
        release(self.order)
        return batch


def padding(batches: Iterable[NDArray[np.int64]], lengths: ArrayLike) -> float:
    """The share of positions that are padding when every item is padded to the longest of its batch.

    >>> padding([np.array([0, 1])], [4, 2])
    0.25
    """
    values = np.asarray(lengths)
    size = filled = 0
    for batch in batches:
        size += len(batch) * int(values[batch].max(initial=0))
        filled += int(values[batch].sum())
    return 1 - filled / size if size else 0.0


def _ordered(
    source: NDArray[Any],
    target: NDArray[Any],
    items: NDArray[Any] | None,
    random: np.random.Generator | None,
    extra: int,
) -> tuple[NDArray[Any], NDArray[np.integer[Any]]]:
    """The items in the order in which they are cut into batches, and the larger of the lengths of each."""
    count = len(source) if items is None else len(items)
    parts = [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    shuffled = scratch(count, np.int32 if count <= np.iinfo(np.int32).max else np.int64, most=MOST_SHUFFLED)
    for part in parts:
        shuffled[part] = np.arange(part.start, part.stop)
    if random is not None:
        random.shuffle(shuffled)  # as `random.permutation`, in half the memory
    phase = random.random() if random else 0.0
    # items with the same lengths are one kind; the kinds are sorted, and the items are put in their order
    kinds = Sizes.of(source, target, items)
    number_of = kinds.numbering()
    sides = kinds.source + extra, kinds.target + extra
    larger = np.maximum(np.maximum(*sides), 1)
    buckets = np.floor(np.log(larger) / np.log(RATIO) + phase).astype(np.int64)
    difference = sides[1] - sides[0]
    parity = np.unique(buckets, return_inverse=True)[1] % 2
    keys = np.stack([buckets, np.where(parity == 0, difference, -difference)])
    ranks = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
    counts = np.bincount(ranks, kinds.count).astype(np.int64)
    free = np.cumsum(counts) - counts  # the next free place of each rank
    ranks = ranks.astype(np.min_scalar_type(len(counts)))
    order = scratch(count, shuffled.dtype)
    lengths = scratch(count, np.min_scalar_type(int(larger.max(initial=0))))
    for part in parts:
        chosen = shuffled[part] if items is None else items[shuffled[part]]
        kinds_here = number_of(source[chosen], target[chosen])
        ranks_here = ranks[kinds_here]
        sorting = np.argsort(ranks_here, kind="stable")
        number = np.bincount(ranks_here, minlength=len(counts))
        place = np.arange(len(chosen)) + np.repeat(free - (np.cumsum(number) - number), number)
        free += number
        order[place] = chosen[sorting]
        lengths[place] = larger[kinds_here[sorting]]
        release(order, lengths)
    return order, lengths


def _cut(lengths: NDArray[np.integer[Any]], batch_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where batches start and stop: each is as long as it fits."""
    starts = []
    start, count = 0, len(lengths)
    while start < count:
        starts.append(start)
        longest = int(lengths[start])
        window = lengths[start : start + max(batch_tokens // longest, 1)]
        fits = len(window)
        if window.max() > longest:
            sizes = np.maximum.accumulate(window.astype(np.int64)) * np.arange(1, len(window) + 1)
            fits = max(int(np.searchsorted(sizes, batch_tokens, "right")), 1)
        start += fits
    starts_of = np.array(starts, np.int64)
    return starts_of, np.append(starts_of[1:], count) if count else starts_of


def _even(
    starts: NDArray[np.int64], stops: NDArray[np.int64], world_size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Batches of which the largest are halved until their number is a multiple of `world_size`."""
    while len(starts) % world_size:
        i = int((stops - starts).argmax())
        if stops[i] - starts[i] < 2:
            break
        middle = starts[i] + (stops[i] - starts[i]) // 2
        starts, stops = np.insert(starts, i + 1, middle), np.insert(stops, i, middle)
    return starts, stops
