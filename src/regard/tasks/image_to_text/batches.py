"""Batches of pictures of similar height and width, so that little of them is padding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regard.tasks.encoded import batches_within

RATIO = 1.3
"""Pictures whose areas differ by less than this factor share a bucket."""


def in_batches(shapes: NDArray[np.int64], batch_pixels: int, *, in_order: bool = False) -> Iterator[NDArray[np.int64]]:
    """Indices of readable pictures in batches of at most `batch_pixels` with padding; a larger picture is a batch.

    Args:
        shapes: (pictures, 2) heights and widths; 0 for pictures that cannot be read.
        in_order: whether the order of the pictures is kept; else those of similar width and height share a batch.
    """
    order = np.arange(len(shapes)) if in_order else np.lexsort((shapes[:, 0], shapes[:, 1]))
    return _cut(order[shapes[order].min(1, initial=1) > 0], shapes, batch_pixels)


def bucket_pictures(shapes: NDArray[np.int64], *, batch_pixels: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """The batches of one epoch: a pure function of its arguments, so a run can resume at any batch.

    Pictures fall into buckets of geometric width by their area; the edges move with every epoch. Within a bucket they
    are sorted by aspect, ascending and descending in turn, with equal ones in random order. This order is cut into
    batches, and the batches are shuffled.

    Args:
        shapes: (items, 2) height and width of the picture of each item.
        batch_pixels: the most pixels of a batch, with padding; a larger picture is a batch by itself.
        seed, epoch: seed everything random.
    """
    random = np.random.default_rng((seed, epoch))
    shuffled = random.permutation(len(shapes))
    height, width = np.maximum(shapes[shuffled], 1).astype(np.float64).T
    bucket = np.floor(np.log(height * width) / np.log(RATIO) + random.random()).astype(np.int64)
    parity = np.unique(bucket, return_inverse=True)[1] % 2
    aspect = np.log(height / width)
    order = shuffled[np.lexsort((np.where(parity == 0, aspect, -aspect), bucket))]
    batches = list(_cut(order, shapes, batch_pixels))
    return [batches[i] for i in random.permutation(len(batches))]


def _cut(order: NDArray[np.int64], shapes: NDArray[np.int64], batch_pixels: int) -> Iterator[NDArray[np.int64]]:
    return batches_within(order, shapes, lambda rows, height, width: rows * height * width <= batch_pixels)
