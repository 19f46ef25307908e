"""Pairs of texts as a sequence that is read on demand."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from regard.data.defects import is_collecting, readable
from regard.data.lines import Lines


@dataclass(frozen=True, slots=True)
class Pair:
    """A source text and its target text, with the file and line they are from.

    Args:
        source, target: the texts.
        file, line: of the pair, or of the source if the target has a file of its own.
        target_file: the file of the target, if it is another one.
    """

    source: str
    target: str
    file: Path
    line: int
    target_file: Path | None = None

    @property
    def place(self) -> str:
        """File and line, as messages show them."""
        return f"{self.file}:{self.line}"

    def place_of(self, side: str) -> str:
        """File and line of one side, `source` or `target`."""
        return f"{self.target_file}:{self.line}" if side == "target" and self.target_file else self.place


class Pairs(Sequence[Pair]):
    """A sequence of pairs that are read by index; slices are views."""

    @abstractmethod
    def read(self, index: int) -> Pair:
        """The pair at an index from 0 to `len(self) - 1`."""

    @property
    def num_blank(self) -> int:
        """How many blank lines were skipped."""
        return 0

    @property
    def heading(self) -> tuple[str, ...]:
        """The names of the columns, if the first row of the file has them and is no pair."""
        return ()

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


class LinePairs(Pairs):
    """One pair per line of a file; blank lines are skipped."""

    def __init__(self, path: Path) -> None:
        self.lines = Lines(path, skip_blank=True)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def num_blank(self) -> int:
        return self.lines.num_skipped


def readable_pairs(pairs: Pairs) -> Pairs:
    """The pairs; while defects are collected, those of them that can be read."""
    if not is_collecting():
        return pairs
    indices = readable(len(pairs), pairs.read)
    return pairs if len(indices) == len(pairs) else Selection(pairs, np.array(indices, dtype=np.int64))


class Selection(Pairs):
    """Some of the pairs of a sequence, in the order of their indices."""

    def __init__(self, pairs: Pairs, indices: NDArray[np.int64]) -> None:
        self.pairs = pairs
        self.indices = indices

    @property
    def heading(self) -> tuple[str, ...]:
        return self.pairs.heading

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> Pair:
        return self.pairs.read(int(self.indices[index]))


def shorten(text: str, limit: int = 60) -> str:
    """A text as messages show it: quoted, on one line, and cut if it is long.

    >>> print(shorten("a\\tb"))
    'a\\tb'
    """
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
