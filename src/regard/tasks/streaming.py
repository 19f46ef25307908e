"""Outputs of a task, piece by piece."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.decoding import Increment, Prediction

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""The replacement of bytes that do not yet form a whole character."""


@dataclass(frozen=True, slots=True, eq=False)
class Streamed:
    """A piece of an output.

    Args:
        index: the number of its input.
        text: the continuation of the text of the pieces before it; it may be empty.
        ids: (n,) long, further symbols without the end symbol.
        alignments: by name, (H, n, S) of these symbols, with S of the batch.
        prediction: in the last piece the whole output, else None.
    """

    index: int
    text: str
    ids: Tensor
    alignments: dict[str, Tensor] = field(default_factory=dict)
    prediction: Prediction | None = None

    @classmethod
    def nothing(cls, index: int, prediction: Prediction) -> Streamed:
        """The only piece of an output without symbols."""
        return cls(index, "", torch.empty(0, dtype=torch.long), prediction=prediction)


class Pieces:
    """Makes pieces of the increments of a batch.

    Args:
        texts: for each output, the function from its ids to its text.
        composes: whether a symbol may change the last character, as with units `letter`.
    """

    def __init__(self, texts: Sequence[Callable[[list[int]], str]], *, composes: bool = False) -> None:
        self._texts = texts
        self._composes = composes
        self._ids: list[list[int]] = [[] for _ in texts]
        self._shown = [""] * len(texts)

    def piece(
        self, index: int, increment: Increment, prediction: Prediction | None, *, most: int | None = None
    ) -> Streamed:
        """The piece of an increment.

        Args:
            prediction: the whole output if the increment is the last one.
            most: the most symbols of an output; a search has room for one more.
        """
        row, ids = increment.sentence, self._ids[increment.sentence]
        new = increment.tokens if most is None else increment.tokens[: max(most - len(ids), 0)]
        if increment.hypothesis is not None and increment.hypothesis.stop_reason == "eos" and len(increment.tokens):
            new = increment.tokens[:-1]
        ids += new.tolist()
        whole = self._texts[row](ids) if prediction is None else prediction.text
        if prediction is None:
            whole = whole.rstrip(UNFINISHED)
            if self._composes:
                whole = whole[: max((i for i, c in enumerate(whole) if not unicodedata.combining(c)), default=0)]
        text = whole[len(self._shown[row]) :] if whole.startswith(self._shown[row]) else ""
        self._shown[row] += text
        alignments = {name: weights[:, : len(new)] for name, weights in increment.alignments.items()}
        return Streamed(index, text, new, alignments, prediction)
