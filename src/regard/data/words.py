"""Words of texts whose symbols are smaller: which symbols are parts of which word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of a text of S symbols.

    Args:
        texts: the words, in order.
        index: (S,) int64, the number of the word of each symbol, from 0; -1 for symbols of no word, such as blanks.
    """

    texts: tuple[str, ...]
    index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)
