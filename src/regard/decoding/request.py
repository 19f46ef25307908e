"""The request that every search method serves, and the events that its steps yield to a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Generator as Iteration
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from regard import tree
from regard.decoding.constraint import Constraints
from regard.decoding.history import History
from regard.decoding.penalty import AbstractPenalty
from regard.decoding.processor import Processor, SearchSource
from regard.decoding.result import Hypothesis
from regard.errors import RegardError, ShapeError
from regard.models.contract import Decoder, Tree
from regard.shapes import Int, describe

if TYPE_CHECKING:
    from regard.decoding.live_beam import AbstractSearch
    from regard.decoding.tree_recorder import TreeRecorder


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Request:
    """The arguments of `search` except its options.

    Args:
        streaming: whether the search yields its progress.
        recorder: watches the search, for its tree.
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
    recorder: TreeRecorder | None = None

    def watched(self, search: AbstractSearch[Any]) -> AbstractSearch[Any]:
        """The search, watched by the recorder if there is one."""
        return search if self.recorder is None else self.recorder.watching(search)


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """After a step, the hypotheses that may still become the best one of each of M unfinished sentences.

    Args:
        history: holds their tokens.
        sentences: (M,), their indices in the batch.
        nodes: (M, C), the last nodes of hypotheses.
        possible: (M, C) bool, True for real hypotheses; at least one per sentence.
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
"""A search as a generator, run in inference mode. It yields only when streaming, and returns a function that reads the
results, to be called outside inference mode."""


def exhausted(steps: Steps) -> list[list[Hypothesis]]:
    """Runs a search to its end and reads its results."""
    with torch.inference_mode():
        try:
            while True:
                next(steps)
        except StopIteration as stop:
            read: Callable[[], list[list[Hypothesis]]] = stop.value
    return read()


def length_limits(max_length: int | Tensor, memory: Tree) -> Int[Tensor, " B"]:
    """(B,) long: the largest number of tokens, or of steps, of each sentence.

    Raises:
        ShapeError: for a tensor that is not (B,) integers.
        RegardError: for a length below 1.
    """
    limits = per_sentence("max_length", max_length, memory)
    if len(limits) and int(limits.min()) < 1:
        raise RegardError(f"max_length={int(limits.min())}: a sentence needs room for at least 1 token.")
    return limits


def per_sentence(name: str, value: int | Tensor, memory: Tree) -> Int[Tensor, " B"]:
    """An option as (B,) long on the device of the memory.

    Raises:
        ShapeError: for a tensor that is not (B,) integers.
    """
    count, device = tree.rows(memory), next(tree.leaves(memory)).device
    values = torch.as_tensor(value, device=device)
    if values.is_floating_point() or values.dtype == torch.bool or values.shape not in ((), (count,)):
        raise ShapeError(f"{name} must be an int or (B={count},) integers.\n" + describe({name: ("B", values)}))
    return values.long().expand(count)
