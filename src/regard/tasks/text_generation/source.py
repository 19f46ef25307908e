"""Inputs of models that write texts, read and encoded."""

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
    """An input as it is read; tasks add the fields that their encoders need.

    Args:
        name: the name in messages.
        size: the number of symbols or pixels; 0 if the input cannot be read.
        content: numbers that identify the input, which seed its draws.
        columns: the names of its positions in alignments, in their order.
        unknown: its symbols that the model does not know.
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
class EncodedSources:
    """A batch of encoded sources.

    Args:
        memory: the decoder's memory, a row for each source.
        source: ids and mask, which processors and penalties of the search read.
        positions: for each source its own among the batch's S positions: a slice, or (S',) numbers.
    """

    memory: Any
    source: SearchSource
    positions: Sequence[Any]
