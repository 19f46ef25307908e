"""What searches are given, and what their steps yield to a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Generator as Iteration
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from regard.decoding.constraint import Constraints
from regard.decoding.history import History
from regard.decoding.penalty import AbstractPenalty
from regard.decoding.processor import Processor, SearchSource
from regard.decoding.result import Hypothesis
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


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """After a step: the hypotheses that may yet be the best one of each of M sentences that go on.

    Args:
        history: has their tokens.
        sentences: (M,), their numbers in the batch.
        nodes: (M, C), the last nodes of hypotheses.
        possible: (M, C) bool, which of these there are; one or more for each sentence.
    """

    history: History
    sentences: Tensor
    nodes: Tensor
    possible: Tensor


@dataclass(frozen=True, slots=True)
class Ended:
    """The best hypotheses of M sentences whose search has ended.

    Args:
        history, sentences: as in `SearchProgress`.
        nodes: (M,), the last nodes.
        scores: (M,).
        ended: (M,) bool, whether the end of sentence was reached.
    """

    history: History
    sentences: Tensor
    nodes: Tensor
    scores: Tensor
    ended: Tensor


Steps = Iteration[SearchProgress | Ended, None, Callable[[], list[list[Hypothesis]]]]
"""A search that is run by `next`, in inference mode. It yields only if it is streamed, and returns a function that
reads its results, which is to be called outside of inference mode."""


def exhausted(steps: Steps) -> list[list[Hypothesis]]:
    """Runs a search to its end and reads its results."""
    with torch.inference_mode():
        try:
            while True:
                next(steps)
        except StopIteration as stop:
            read: Callable[[], list[list[Hypothesis]]] = stop.value
    return read()
