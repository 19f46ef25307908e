"""Texts as ids: encoded once, and copied into padded batches."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regard.data.text import PAD, Field


class EncodedIds:
    """Many sequences of ids, end to end in one type.

    Args:
        sequences: arrays of ids; read once.
        kind: a type that holds every id.
    """

    def __init__(self, sequences: Iterable[NDArray[np.int64]], kind: np.dtype[Any]) -> None:
        flat, lengths = array(kind.char), array("q")
        for ids in sequences:
            flat.frombytes(ids.astype(kind).tobytes())
            lengths.append(len(ids))
        self.flat = np.frombuffer(flat, kind)
        self.lengths: NDArray[np.int64] = np.frombuffer(lengths, np.int64)
        self.starts = np.cumsum(self.lengths) - self.lengths

    def pad(self, indices: ArrayLike, *, begin: int | None = None, end: int | None = None) -> tuple[Tensor, Tensor]:
        """Some of the sequences, in the order of their indices, padded as by the function `pad`."""
        chosen = np.asarray(indices, dtype=np.int64)
        return _lay_out(self.flat, self.starts[chosen], self.lengths[chosen], begin, end)


class EncodedTexts(EncodedIds):
    """The ids of many texts, in the smallest type that holds them: one, two or four bytes per symbol.

    Args:
        texts: raw texts; read once.
        field: turns texts into ids.
        is_reversed: whether the last symbol of a text comes first.
    """

    def __init__(self, texts: Iterable[str], field: Field, *, is_reversed: bool = False) -> None:
        step = -1 if is_reversed else 1
        ids = (field.vocabulary.ids(field.split(text))[::step] for text in texts)
        super().__init__(ids, np.min_scalar_type(len(field.vocabulary) - 1))


def pad(
    sequences: Sequence[NDArray[np.int64]], *, begin: int | None = None, end: int | None = None
) -> tuple[Tensor, Tensor]:
    """Sequences of ids as a right-padded (B, S) batch with its (B, S) mask; `begin` and `end` are added to each."""
    lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
    flat = np.concatenate(sequences) if sequences else np.empty(0, np.int64)
    return _lay_out(flat, np.cumsum(lengths) - lengths, lengths, begin, end)


def turned(rows: Tensor, lengths: NDArray[np.int64]) -> Tensor:
    """(B, T, …) with the first `lengths` (B,) rows of each in the opposite order; the others stay.

    >>> turned(torch.tensor([[1, 2, 3, 9], [1, 2, 9, 0]]), np.array([3, 2]))
    tensor([[3, 2, 1, 9],
            [2, 1, 9, 0]])
    """
    steps, ends = np.arange(rows.shape[1]), lengths[:, None]
    index = torch.from_numpy(np.where(steps < ends, ends - 1 - steps, steps)).to(rows.device)
    return rows[torch.arange(len(rows), device=rows.device)[:, None], index]


def numbered(inputs: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """A number for each input, by which draws for it differ (`regard.decoding.sample`).

    It is a hash of the ids, with the number of equal inputs before it in the upper 32 bits. So an input has the same
    number whatever other inputs there are.
    """
    seen: Counter[int] = Counter()
    numbers = np.empty(len(inputs), np.int64)
    for i, ids in enumerate(inputs):
        content = crc32(ids.tobytes())
        numbers[i] = content | seen[content] << 32
        seen[content] += 1
    return numbers


def _lay_out(
    flat: NDArray[np.integer],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    begin: int | None,
    end: int | None,
) -> tuple[Tensor, Tensor]:
    first, rows = int(begin is not None), len(lengths)
    whole = lengths + first + (end is not None)
    columns = np.arange(whole.max(initial=0))
    padded = np.full((rows, len(columns)), PAD, dtype=np.int64)
    real = (columns >= first) & (columns < (lengths + first)[:, None])
    padded[real] = flat[((starts - first)[:, None] + columns)[real]]
    if begin is not None:
        padded[:, :1] = begin
    if end is not None:
        padded[np.arange(rows), lengths + first] = end
    return torch.from_numpy(padded), torch.from_numpy(columns < whole[:, None])
