"""Searches as generators: the steps at which a stream looks at them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.history import History
from regard.decoding.result import Hypothesis


@dataclass(frozen=True, slots=True)
class Progress:
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
        history, sentences: as in `Progress`.
        nodes: (M,), the last nodes.
        scores: (M,).
        ended: (M,) bool, whether the end of sentence was reached.
    """

    history: History
    sentences: Tensor
    nodes: Tensor
    scores: Tensor
    ended: Tensor


Steps = Generator[Progress | Ended, None, Callable[[], list[list[Hypothesis]]]]
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
