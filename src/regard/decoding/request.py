"""What the public searches hand to their steps: one value for every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Generator, Tensor

from regard.decoding.constraint import Constraints
from regard.decoding.penalty import AbstractPenalty
from regard.decoding.processor import Processor, SearchSource
from regard.models.contract import Decoder, Tree


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Request:
    """What is searched for, whatever the method.

    Args:
        decoder, memory, bos, eos, max_length, alignment, penalty, processors, items, source, min_length, unk,
            constraints, generator: as in `search`.
        streaming: whether the search yields what a stream looks at.
    """

    decoder: Decoder
    memory: Tree
    bos: int
    eos: int
    max_length: int | Tensor
    alignment: bool = False
    penalty: AbstractPenalty | None = None
    processors: Sequence[Processor] = ()
    items: Tensor | None = None
    source: SearchSource | None = None
    min_length: int | Tensor | None = None
    unk: int | None = None
    constraints: Sequence[Constraints | None] | None = None
    generator: Generator | None = None
    streaming: bool = False
