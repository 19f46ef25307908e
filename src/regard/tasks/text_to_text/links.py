"""Reference alignments of training pairs, in symbols or in words."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data import Pair, Pairs, Selection
from regard.data.defects import is_collecting, readable
from regard.data.lines import Lines
from regard.data.text import Field, Links, parse_links
from regard.errors import DataError
from regard.shapes import Bool
from regard.tasks.encoded import reversed_rows


class TrainingLinks:
    """The links of training pairs, from a file whose line n belongs to line n of the pairs.

    A line is `0-0 1-2 …`: of each link first the symbol of the input, then that of the output, both counted from 0;
    possible links (`0?0`) count like sure ones. An empty line has none. Of links between words, every symbol has those
    of its word, and symbols outside words have none.

    Args:
        lengths: (N, 2), the symbols of input and output of each pair.
        fields: those of input and output if the links are between words; None if they are between symbols.
        is_reversed: whether the last symbol of an output comes first in training.

    Raises:
        DataError: for a missing or malformed line, or a link beyond the end of its pair.
    """

    def __init__(
        self,
        path: Path,
        pairs: Sequence[Pair],
        lengths: NDArray[np.int64],
        fields: tuple[Field, Field] | None = None,
        *,
        is_reversed: bool = False,
    ) -> None:
        lines, flat, counts = Lines(path), array("i"), array("q")
        self.words = None if fields is None else tuple(WordNumbers(field) for field in fields)
        unit = "symbol" if fields is None else "word"
        for pair, row in zip(pairs, lengths, strict=True):
            place, links = f"{path}:{pair.line}", _links_of(lines, pair)
            sizes = row
            if self.words is not None:
                texts = (pair.source, pair.target)
                sizes = [words.add(text, size) for words, text, size in zip(self.words, texts, row, strict=True)]
            both = sorted(links.sure | links.possible)
            for link in both:
                for number, size, side in zip(link, sizes, ("input", "output"), strict=True):
                    if number >= size:
                        raise DataError(
                            f"{place}: the link {link[0]}-{link[1]} needs {unit} {number} of the {side}, counted from "
                            f"0; {pair.place} has {size} there."
                        )
                flat.extend(link)
            counts.append(len(both))
        self.flat = np.frombuffer(flat, np.int32).reshape(-1, 2)
        self.counts = np.frombuffer(counts, np.int64)
        self.starts = np.cumsum(self.counts) - self.counts
        self.reversed_lengths = lengths[:, 1] if is_reversed else None

    def pad(self, indices: NDArray[np.int64], steps: int, positions: int) -> Bool[Tensor, "B T S"]:
        """The links of the symbols of some pairs, True where there is one."""
        links = self._read(indices, steps, positions)
        return links if self.reversed_lengths is None else reversed_rows(links, self.reversed_lengths[indices])

    def _read(self, indices: NDArray[np.int64], steps: int, positions: int) -> Bool[Tensor, "B T S"]:
        """The links, with the symbols of outputs in reading order."""
        counts = self.counts[indices]
        rows = np.repeat(np.arange(len(indices)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        links = self.flat[np.repeat(self.starts[indices], counts) + within]
        if self.words is None:
            reference = np.zeros((len(indices), steps, positions), dtype=np.bool_)
            reference[rows, links[:, 1], links[:, 0]] = True
            return torch.from_numpy(reference)
        columns, lines = (words.pad(indices, size) for words, size in zip(self.words, (positions, steps), strict=True))
        # index -1 selects the last row and column, which are those of symbols outside words
        between = np.zeros((len(indices), lines.max(initial=-1) + 2, columns.max(initial=-1) + 2), dtype=np.bool_)
        between[rows, links[:, 1], links[:, 0]] = True
        return torch.from_numpy(between[np.arange(len(indices))[:, None, None], lines[:, :, None], columns[:, None]])


def linked(pairs: Pairs, path: Path) -> Pairs:
    """The pairs; while defects are collected, only those with links that can be read."""
    if not is_collecting():
        return pairs
    lines = Lines(path)
    return Selection(pairs, np.array(readable(len(pairs), lambda index: _links_of(lines, pairs[index])), np.int64))


def _links_of(lines: Lines, pair: Pair) -> Links:
    """The links of a pair."""
    if pair.line > len(lines):
        raise DataError(f"{lines.path}: {len(lines):,} lines, but {pair.place} needs a line {pair.line:,} here.")
    return parse_links(lines[pair.line - 1], place=f"{lines.path}:{pair.line}")


class WordNumbers:
    """The number of the word of each symbol of many texts, concatenated."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.flat, self.lengths = array("i"), array("q")

    def add(self, text: str, length: int) -> int:
        """Adds a text and returns the number of its words."""
        words = self.field.words(self.field.split(text), text)
        assert len(words.index) == length
        self.flat.extend(words.index.tolist())
        self.lengths.append(length)
        return len(words)

    def pad(self, indices: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """The numbers of some texts, (B, size); -1 for symbols outside words, the end symbol and padding."""
        lengths = np.frombuffer(self.lengths, np.int64)
        starts = (np.cumsum(lengths) - lengths)[indices]
        columns = np.arange(size)
        real = columns < lengths[indices][:, None]
        numbers = np.full(real.shape, -1, dtype=np.int64)
        numbers[real] = np.frombuffer(self.flat, np.int32)[(starts[:, None] + columns)[real]]
        return numbers
