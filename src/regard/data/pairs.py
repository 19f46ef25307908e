"""Pairs of texts as a sequence read on demand."""

from __future__ import annotations

import operator
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from regard.data.defects import is_collecting, readable
from regard.data.growing_array import release
from regard.errors import DataError

PART = 1 << 14
"""The number of pairs that are read at once."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A source text and its target text, with their file and line.

    Args:
        file, line: of the pair, or of the source of a parallel file.
        target_file: the file of the target, if it is another one.
    """

    source: str
    target: str
    file: Path
    line: int
    target_file: Path | None = None

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file}:{self.line}"

    def place_of(self, side: str) -> str:
        """File and line of one side, `source` or `target`."""
        return f"{self.target_file}:{self.line}" if side == "target" and self.target_file else self.place


class Pairs(Sequence[Pair]):
    """A sequence of pairs, read by index; slices are views."""

    @abstractmethod
    def read(self, index: int) -> Pair:
        """The pair at an index from 0 to `len(self) - 1`."""

    def part(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        """The sources and the targets of the pairs from one index to another, read at once.

        Raises:
            DataError: for the first of them that cannot be read.
        """
        pairs = [self.read(index) for index in range(start, stop)]
        return [pair.source for pair in pairs], [pair.target for pair in pairs]

    def parts(self) -> Iterator[tuple[list[str], list[str]]]:
        """The sources and the targets of all pairs, `PART` at a time."""
        for start in range(0, len(self), PART):
            yield self.part(start, min(start + PART, len(self)))

    @property
    def num_blank(self) -> int:
        """The number of skipped blank lines."""
        return 0

    @property
    def heading(self) -> tuple[str, ...]:
        """The names of the columns, if the first row of the file is a header."""
        return ()

    @property
    def num_columns(self) -> int:
        """The number of columns of the file, if the first two of more are read because none are named; otherwise 0."""
        return 0

    def __iter__(self) -> Iterator[Pair]:
        return map(self.read, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> Pairs: ...
    def __getitem__(self, index: int | slice) -> Pair | Pairs:
        if isinstance(index, slice):
            return Selection(self, np.arange(len(self))[index])
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"There are {len(self)} pairs; got the index {number}.")
        return self.read(number % len(self))


def readable_pairs(pairs: Pairs) -> Pairs:
    """The pairs; while defects are collected, only those that can be read."""
    if not is_collecting():
        return pairs
    indices = readable(len(pairs), pairs.read)
    return pairs if len(indices) == len(pairs) else Selection(pairs, np.array(indices, dtype=np.int64))


class Selection(Pairs):
    """The pairs of a sequence at some indices."""

    def __init__(self, pairs: Pairs, indices: NDArray[np.integer]) -> None:
        self.pairs = pairs
        self.indices = indices

    @property
    def heading(self) -> tuple[str, ...]:
        return self.pairs.heading

    @property
    def num_columns(self) -> int:
        return self.pairs.num_columns

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> Pair:
        return self.pairs.read(int(self.indices[index]))

    def part(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        chosen = self.indices[start:stop].astype(np.int64)
        release(self.indices)
        if not len(chosen) or (np.diff(chosen) < 1).any() or chosen[-1] - chosen[0] >= 2 * len(chosen):
            return super().part(start, stop)
        try:
            sources, targets = self.pairs.part(int(chosen[0]), int(chosen[-1]) + 1)
        except DataError:  # of a pair that is not chosen
            return super().part(start, stop)
        if len(sources) == len(chosen):
            return sources, targets
        numbers = (chosen - chosen[0]).tolist()
        return [sources[number] for number in numbers], [targets[number] for number in numbers]


class ListedPairs(Pairs):
    """Pairs in memory."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self.pairs = list(pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def read(self, index: int) -> Pair:
        return self.pairs[index]


class LazyPairs(Pairs):
    """Pairs whose file is opened when one is read.

    Args:
        count: their number.
    """

    def __init__(self, open: Callable[[], Pairs], count: int) -> None:
        self._open, self._count = open, count

    @cached_property
    def pairs(self) -> Pairs:
        """The pairs of the opened file."""
        return self._open()

    def __len__(self) -> int:
        return self._count

    @property
    def num_blank(self) -> int:
        return self.pairs.num_blank

    @property
    def heading(self) -> tuple[str, ...]:
        return self.pairs.heading

    @property
    def num_columns(self) -> int:
        return self.pairs.num_columns

    def read(self, index: int) -> Pair:
        return self.pairs.read(index)

    def part(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        return self.pairs.part(start, stop)


class JoinedPairs(Pairs):
    """The pairs of several sequences, one after the other."""

    def __init__(self, *sequences: Pairs) -> None:
        self.sequences = sequences
        self.starts = [0, *accumulate(map(len, sequences))]

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def num_blank(self) -> int:
        return sum(pairs.num_blank for pairs in self.sequences)

    @property
    def num_columns(self) -> int:
        return max(pairs.num_columns for pairs in self.sequences)

    def read(self, index: int) -> Pair:
        number = bisect_right(self.starts, index) - 1
        return self.sequences[number].read(index - self.starts[number])

    def part(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        sources, targets = list[str](), list[str]()
        for first, pairs in zip(self.starts, self.sequences):
            if (begin := max(start - first, 0)) < (end := min(stop - first, len(pairs))):
                more = pairs.part(begin, end)
                sources += more[0]
                targets += more[1]
        return sources, targets


def shorten(text: str) -> str:
    """A text for messages: quoted, on one line, and cut to 60 characters.

    >>> print(shorten("a\\tb"))
    'a\\tb'
    """
    return repr(text if len(text) <= 60 else text[:59] + "…")
