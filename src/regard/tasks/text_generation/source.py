"""What models that write texts read of an input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.text import Field
from regard.decoding import SearchSource


@dataclass(frozen=True, slots=True)
class Spelling:
    """Turns the ids of an output into texts, and symbols into ids.

    Args:
        decode: the text of ids in the order in which they are read.
        tokens: the symbols of ids.
        ids: (len(symbols),) ids of symbols.
    """

    decode: Callable[[Iterable[int]], str]
    tokens: Callable[[Iterable[int]], list[str]]
    ids: Callable[[Sequence[str]], NDArray[np.int64]]

    @classmethod
    def of(cls, field: Field) -> Spelling:
        """The spelling of a field, the same for all inputs."""
        return cls(field.decode, field.tokens, field.vocabulary.ids)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class InputSource:
    """What is read of an input; tasks add to it what their encoders need.

    Args:
        name: how messages show the input.
        size: how many symbols or pixels it has; 0 if nothing can be written about it.
        content: numbers that tell it from other inputs, in draws.
        columns: the names of its positions in alignments, in their order.
        unknown: those of its symbols that the model does not know.
        warnings: why it cannot be handled as it is; empty for most.
    """

    name: str
    size: int
    content: NDArray[np.int64]
    spelling: Spelling
    columns: list[str]
    unknown: Sequence[str] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """Some sources as a search reads them.

    Args:
        memory: the decoder's memory, a row for each.
        source: what processors and penalties of the search read.
        own: for each, which of the batch's S positions are its own: a slice, or (S',) numbers.
    """

    memory: Any
    source: SearchSource
    own: Sequence[Any]
