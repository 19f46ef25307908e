"""Reference alignments: which symbols of an output belong to which symbols of its input."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data import Pair
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.errors import DataError
from regard.shapes import Bool


class Links:
    """The links of training pairs, from a file whose line n belongs to line n of the pairs.

    A line is `0-0 1-2 …`: of each link first the symbol of the input, then that of the output, both counted from 0. An
    empty line has none.

    Args:
        path: the file.
        pairs: training pairs.
        lengths: (N, 2), the symbols of input and output of each pair.

    Raises:
        DataError: for a line that is missing or holds something else, or a link to a symbol that a pair does not have.
    """

    def __init__(self, path: Path, pairs: Sequence[Pair], lengths: NDArray[np.int64]) -> None:
        lines, flat, counts = Lines(path), array("i"), array("q")
        for pair, (source, target) in zip(pairs, lengths, strict=True):
            if pair.line > len(lines):
                raise DataError(f"{path}: {len(lines):,} lines, but {pair.place} needs a line {pair.line:,} here.")
            found = lines[pair.line - 1].split()
            for text in found:
                link = re.fullmatch(r"(\d{1,9})-(\d{1,9})", text)
                if link is None:
                    raise DataError(f"{path}:{pair.line}: expected links such as 0-0 1-2; got {shorten(text)}.")
                for number, size, side in ((int(link[1]), source, "input"), (int(link[2]), target, "output")):
                    if number >= size:
                        raise DataError(
                            f"{path}:{pair.line}: the link {text} needs symbol {number} of the {side}, counted from 0; "
                            f"{pair.place} has {size} there."
                        )
                flat.extend((int(link[1]), int(link[2])))
            counts.append(len(found))
        self.flat = np.frombuffer(flat, np.int32).reshape(-1, 2)
        self.counts = np.frombuffer(counts, np.int64)
        self.starts = np.cumsum(self.counts) - self.counts

    def pad(self, indices: NDArray[np.int64], steps: int, positions: int) -> Bool[Tensor, "B T S"]:
        """The links of some pairs, True where there is one."""
        counts = self.counts[indices]
        rows = np.repeat(np.arange(len(indices)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        links = self.flat[np.repeat(self.starts[indices], counts) + within]
        reference = np.zeros((len(indices), steps, positions), dtype=np.bool_)
        reference[rows, links[:, 1], links[:, 0]] = True
        return torch.from_numpy(reference)
