"""What a search returns, and what a task makes of it for its user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from regard.errors import RegardError

StopReason = Literal["eos", "length"]


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """One output of a search, T tokens long. Its tensors are ordinary ones, on the CPU.

    Args:
        tokens: (T,) long, without bos; the end of sentence is the last one exactly when `stop_reason` is "eos".
        log_probability: the sum of `token_log_probabilities`: what the model says, whatever the options.
        score: what ranks: processors and length penalty included.
        stop_reason: "eos", or "length" where the maximum length (or a dead end: no token left) cut it.
        token_log_probabilities: (T,).
        alignments: by name, (H, T, S), a row for every token, the end of sentence included; empty unless asked for.
            S is the batch's, padding included.
    """

    tokens: Tensor
    log_probability: float
    score: float
    stop_reason: StopReason
    token_log_probabilities: Tensor
    alignments: Mapping[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        shapes = "".join(f", {name} {tuple(a.shape)}" for name, a in self.alignments.items())
        return (
            f"Hypothesis({self.tokens.tolist()}, score={self.score:.4f}, log_probability={self.log_probability:.4f}, "
            f"stop_reason={self.stop_reason!r}{shapes})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What a user gets for one item.

    Args:
        source_tokens: S strings, what the columns of an alignment stand for.
        tokens: T strings, what its rows stand for; "</s>" included where it was produced.
        text: the output as it is read.
        score, log_probability, stop_reason: as in `Hypothesis`.
        alignment: (T, S) of the decoder's main attention, or None.
        alignments: by name, (H, T, S).
        warnings: what the user should know about this item.
        alternatives: the next best predictions, best first.
    """

    source_tokens: list[str]
    tokens: list[str]
    text: str
    score: float
    log_probability: float
    stop_reason: StopReason
    alignment: Any = None
    alignments: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    alternatives: tuple[Prediction, ...] = ()

    def __repr__(self) -> str:
        parts = [repr(self.text), f"score={self.score:.4f}", f"stop_reason={self.stop_reason!r}"]
        if self.alignment is not None:
            parts.append(f"alignment {tuple(self.alignment.shape)}")
        if self.warnings:
            parts.append(f"warnings={list(self.warnings)}")
        if self.alternatives:
            parts.append(f"alternatives={[other.text for other in self.alternatives]}")
        return f"Prediction({', '.join(parts)})"


def main_alignment(alignments: Mapping[str, Tensor], decoder: object = None) -> Tensor | None:
    """The (T, S) alignment that a prediction shows: the decoder's `main_attention`, else the last; mean of heads.

    Args:
        alignments: by name, (H, T, S).
        decoder: may name its `main_attention`.

    Raises:
        RegardError: when the decoder names one that is not there.
    """
    if not alignments:
        return None
    name = getattr(decoder, "main_attention", None) or list(alignments)[-1]
    if name not in alignments:
        raise RegardError(f"The decoder's main_attention is {name!r}, but its alignments are {', '.join(alignments)}.")
    return alignments[name].mean(0)
