"""Sequences of ids: encoded once, divided into batches, and copied into padded tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regard.data.growing_array import GrowingArray, release
from regard.data.pairs import PART
from regard.data.text import PAD, Field
from regard.data.text.survey import SideSurvey


class EncodedIds:
    """Many sequences of ids, concatenated in one array.

    Args:
        flat: the ids of all sequences.
        lengths, starts: (sequences,) the number of ids of each, and the index of its first one.
        numbers: the ids that stand for those in `flat`; the same if None.
        is_reversed: whether the last id of a sequence comes first.
    """

    def __init__(
        self,
        flat: NDArray[Any],
        lengths: NDArray[Any],
        starts: NDArray[Any],
        *,
        numbers: NDArray[np.int64] | None = None,
        is_reversed: bool = False,
    ) -> None:
        self.flat, self.lengths, self.starts = flat, lengths, starts
        self.numbers, self.is_reversed = numbers, is_reversed

    @classmethod
    def of(cls, sequences: Iterable[NDArray[np.int64]], kind: Any = None) -> EncodedIds:
        """Those of sequences that are read once; on disk if they are many (`GrowingArray`).

        Args:
            kind: an integer type with room for every id; the smallest if None, for ids from 0 on.
        """
        flat, lengths = GrowingArray(kind), GrowingArray()
        remaining = iter(sequences)
        while part := list(islice(remaining, PART)):
            flat.add(np.concatenate(part))
            lengths.add(np.array([len(ids) for ids in part]))
        sizes = lengths.array()
        return cls(flat.array(), sizes, np.cumsum(sizes) - sizes)

    def pad(self, indices: ArrayLike, *, begin: int | None = None, end: int | None = None) -> tuple[Tensor, Tensor]:
        """The sequences with these indices, padded as by the function `pad`."""
        chosen = np.asarray(indices, dtype=np.int64)
        starts, lengths = self.starts[chosen].astype(np.int64), self.lengths[chosen].astype(np.int64)
        options: dict[str, Any] = {"numbers": self.numbers, "is_reversed": self.is_reversed}
        batch = _padded(self.flat, starts, lengths, begin, end, **options)
        release(self.flat, self.lengths, self.starts)
        return batch


class EncodedTexts(EncodedIds):
    """The ids of many texts, in the smallest type: one, two or four bytes per symbol.

    Args:
        texts: raw texts; read once.
        is_reversed: whether the last symbol of a text comes first.
    """

    def __init__(self, texts: Iterable[str], field: Field, *, is_reversed: bool = False) -> None:
        ids = (field.vocabulary.ids(field.split(text)) for text in texts)
        encoded = EncodedIds.of(ids, np.min_scalar_type(len(field.vocabulary) - 1))
        super().__init__(encoded.flat, encoded.lengths, encoded.starts, is_reversed=is_reversed)


def encoded_side(side: SideSurvey, *, is_reversed: bool = False) -> EncodedIds:
    """The texts of a survey, with the ids of its field."""
    numbers = side.field.vocabulary.ids(list(side.counts))
    return EncodedIds(side.ids, side.lengths, side.starts, numbers=numbers, is_reversed=is_reversed)


def pad(
    sequences: Sequence[NDArray[np.int64]], *, begin: int | None = None, end: int | None = None
) -> tuple[Tensor, Tensor]:
    """Sequences of ids as a right-padded (B, S) batch with its (B, S) mask; `begin` and `end` are added to each."""
    lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
    flat = np.concatenate(sequences) if sequences else np.empty(0, np.int64)
    return _padded(flat, np.cumsum(lengths) - lengths, lengths, begin, end)


def batches_within(
    order: NDArray[np.int64], sizes: NDArray[np.int64], fits: Callable[..., bool]
) -> Iterator[NDArray[np.int64]]:
    """Consecutive parts of an order, each as long as it fits; a part has at least one item.

    Args:
        order: indices of items.
        sizes: (items, k), the sizes of every item.
        fits: called with the number of items of a part and the k largest of their sizes.

    >>> [part.tolist() for part in batches_within(np.arange(4), np.array([[3], [2], [9], [1]]), lambda n, s: n * s < 9)]
    [[0, 1], [2], [3]]
    """
    start, largest = 0, [0] * sizes.shape[1]
    for stop, own in enumerate(sizes[order].tolist()):
        largest = list(map(max, largest, own))
        if stop > start and not fits(stop + 1 - start, *largest):
            yield order[start:stop]
            start, largest = stop, own
    if start < len(order):
        yield order[start:]


def reversed_rows(rows: Tensor, lengths: NDArray[np.int64]) -> Tensor:
    """(B, T, …) with the first `lengths` (B,) rows of each item in reverse order.

    >>> reversed_rows(torch.tensor([[1, 2, 3, 9], [1, 2, 9, 0]]), np.array([3, 2]))
    tensor([[3, 2, 1, 9],
            [2, 1, 9, 0]])
    """
    steps, ends = np.arange(rows.shape[1]), lengths[:, None]
    index = torch.from_numpy(np.where(steps < ends, ends - 1 - steps, steps)).to(rows.device)
    return rows[torch.arange(len(rows), device=rows.device)[:, None], index]


def item_numbers(inputs: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """A number for each input, which seeds its draws (`regard.decoding.sample`) whatever other inputs there are.

    It is a hash of the ids, with the number of equal inputs before it in the upper 32 bits.
    """
    seen: Counter[int] = Counter()
    numbers = np.empty(len(inputs), np.int64)
    for i, ids in enumerate(inputs):
        content = crc32(ids.tobytes())
        numbers[i] = content | seen[content] << 32
        seen[content] += 1
    return numbers


def _padded(
    flat: NDArray[np.integer],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    begin: int | None,
    end: int | None,
    *,
    numbers: NDArray[np.int64] | None = None,
    is_reversed: bool = False,
) -> tuple[Tensor, Tensor]:
    first, rows = int(begin is not None), len(lengths)
    whole = lengths + first + (end is not None)
    columns = np.arange(whole.max(initial=0))
    padded = np.full((rows, len(columns)), PAD, dtype=np.int64)
    real = (columns >= first) & (columns < (lengths + first)[:, None])
    if is_reversed:
        places = (starts + lengths - 1 + first)[:, None] - columns
    else:
        places = (starts - first)[:, None] + columns
    values = flat[places[real]]
    padded[real] = values if numbers is None else numbers[values]
    if begin is not None:
        padded[:, :1] = begin
    if end is not None:
        padded[np.arange(rows), lengths + first] = end
    return torch.from_numpy(padded), torch.from_numpy(columns < whole[:, None])
