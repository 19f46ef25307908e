"""What processors are: functions that change the next token's log-probabilities before a search uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from regard.errors import ShapeError
from regard.shapes import describe


@dataclass(frozen=True, slots=True)
class SearchSource:
    """The sources of the sentences of a search.

    Args:
        ids: (B, S) long, or None if they are not symbols.
        mask: (B, S) bool, True at real positions; all are real if None. S is that of the alignments.
    """

    ids: Tensor | None = None
    mask: Tensor | None = None


@dataclass(frozen=True, slots=True)
class SearchState:
    """The hypotheses of a search when their next token is chosen, R rows.

    What belongs to sentences has B rows, in the order in which they were given to the search. `sentences` says which of
    them each row belongs to: `state.source.ids[state.sentences]`.

    Args:
        tokens: (R, t), the tokens so far, without bos.
        log_probabilities: (R, N), those of the model, before any processor.
        sentences: (R,), the number of each row's sentence in the batch.
        ended: (R,) bool, hypotheses that have ended; what is said of their next token is not used.
        may_end: (R,) bool, False before the minimum length and while required phrases are lacking.
        eos: the id that ends a hypothesis.
        items: (B,), the numbers by which sentences differ (`sample`), if they were given.
        source: what was given to the search.
        weights: (R, S), the decoder's main attention (mean of heads) summed over the steps so far, that of the next
            token included. None if no processor or penalty has `uses_weights`.
        peaks: (R, t + 1), the position with the largest weight at each of these steps, or None.
    """

    tokens: Tensor
    log_probabilities: Tensor
    sentences: Tensor
    ended: Tensor
    may_end: Tensor
    eos: int
    items: Tensor | None = None
    source: SearchSource | None = None
    weights: Tensor | None = None
    peaks: Tensor | None = None

    @property
    def step(self) -> int:
        """The number of the token that is chosen, from 1."""
        return self.tokens.shape[1] + 1


class Processor(Protocol):
    """Any callable from (R, N) log-probabilities and the `SearchState` to new log-probabilities.

    It changes which tokens are chosen and how hypotheses are ranked; `Hypothesis.log_probability` stays the model's. It
    must return a new tensor, whose values do not exceed 0, otherwise a beam may stop too early. A processor that sets
    `uses_weights = True` gets the weights and peaks of the attention, which are kept only if one does.
    """

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor: ...


def uses_weights(reader: object) -> bool:
    """Whether a processor or penalty asks for the weights of the attention."""
    return bool(getattr(reader, "uses_weights", False))


def process(
    log_probabilities: Tensor,
    state: SearchState | None,
    processors: Sequence[Processor],
) -> Tensor:
    """Applies the processors in order.

    Args:
        state: may be None if there are no processors.
    """
    result = log_probabilities
    for processor in processors:
        assert state is not None
        result = processor(result, state)
        if result.shape != log_probabilities.shape:
            raise ShapeError(
                f"The processor {processor!r} must return log-probabilities of the shape of its input.\n"
                + describe({"input": ("R N", log_probabilities), "returned": ("R N", result)})
            )
    return result
