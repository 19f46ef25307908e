"""Batches of items of similar length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import RegardError

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
) -> list[NDArray[np.int64]]:
    """The batches of one epoch: a pure function of its arguments, so that a run can resume at any batch.

    Items are sorted into buckets of geometric width by the length of their larger side, with edges that move in every
    epoch, and within a bucket by target minus source length, ascending and descending in turn, so that neighbours stay
    similar across edges; equal items are in random order. The sorted items are cut into batches, which are shuffled.

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

    Returns:
        The indices of the items in each batch of this rank.

    Raises:
        RegardError: if the numbers of lengths differ, or the rank is outside the world.
    """
    source, target = np.asarray(source_lengths, dtype=np.int64), np.asarray(target_lengths, dtype=np.int64)
    if source.shape != target.shape or source.ndim != 1:
        raise RegardError(
            f"source_lengths and target_lengths need one number per item; got shapes {source.shape}, {target.shape}."
        )
    if not 0 <= rank < world_size:
        raise RegardError(f"rank must be at least 0 and below world_size={world_size}; got {rank}.")
    if batch_tokens < 1:
        raise RegardError(f"batch_tokens must be at least 1; got {batch_tokens}.")
    random = np.random.default_rng((seed, epoch))
    larger = np.maximum(np.maximum(source, target), 1)
    order = _order(source, target, larger, random if shuffle else None)
    batches = _cut(order, larger[order], batch_tokens)
    batches = _even(batches, world_size)
    if shuffle:
        batches = [batches[i] for i in random.permutation(len(batches))]
    return batches[rank::world_size]


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


def _order(
    source: NDArray[np.int64], target: NDArray[np.int64], larger: NDArray[np.int64], random: np.random.Generator | None
) -> NDArray[np.int64]:
    shuffled = random.permutation(len(larger)) if random else np.arange(len(larger))
    phase = random.random() if random else 0.0
    bucket = np.floor(np.log(larger[shuffled]) / np.log(RATIO) + phase).astype(np.int64)
    difference = (target - source)[shuffled]
    parity = np.unique(bucket, return_inverse=True)[1] % 2
    return shuffled[np.lexsort((np.where(parity == 0, difference, -difference), bucket))]


def _cut(order: NDArray[np.int64], lengths: NDArray[np.int64], batch_tokens: int) -> list[NDArray[np.int64]]:
    cuts: list[int] = []
    start = longest = 0
    for i, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if i > start and longest * (i + 1 - start) > batch_tokens:
            cuts.append(i)
            start, longest = i, length
    return np.split(order, cuts) if len(order) else []


def _even(batches: Sequence[NDArray[np.int64]], world_size: int) -> list[NDArray[np.int64]]:
    """The batches, the largest halved until their number is a multiple of `world_size`."""
    result = list(batches)
    while len(result) % world_size:
        i = max(range(len(result)), key=lambda j: len(result[j]))
        if len(result[i]) < 2:
            break
        half = len(result[i]) // 2
        result[i : i + 1] = [result[i][:half], result[i][half:]]
    return result
