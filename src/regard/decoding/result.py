"""The result of a search, and the prediction that a task makes from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from regard.errors import ConfigError, RegardError

StopReason = Literal["eos", "length"]
DECIMALS = 6
"""Decimals of the weights of an alignment in JSON."""
MEAN = "mean"
"""The name that selects all attentions instead of one."""


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """An output of a search, T tokens long. Its tensors are ordinary tensors on the CPU.

    Args:
        tokens: (T,) long, without bos; the last one is the end of sentence if and only if `stop_reason` is "eos".
        log_probability: the sum of `token_log_probabilities`, which are the model's, before processors.
        score: the number by which hypotheses are ranked, after processors and penalties.
        stop_reason: "eos", or "length" if the maximum length was reached or no token was possible.
        token_log_probabilities: (T,).
        alignments: by name, (H, T, S), a row for every token including the end of sentence; empty unless requested. S
            is that of the batch, including padding.
        auxiliary: by name, (T, …): further outputs of the decoder, such as `generate` of a pointer; empty without
            alignments.
    """

    tokens: Tensor
    log_probability: float
    score: float
    stop_reason: StopReason
    token_log_probabilities: Tensor
    alignments: Mapping[str, Tensor] = field(default_factory=dict)
    auxiliary: Mapping[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        shapes = "".join(f", {name} {tuple(a.shape)}" for name, a in self.alignments.items())
        return (
            f"Hypothesis({self.tokens.tolist()}, score={self.score:.4f}, log_probability={self.log_probability:.4f}, "
            f"stop_reason={self.stop_reason!r}{shapes})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The output for one item.

    Args:
        source_tokens: S strings, the columns of an alignment.
        tokens: T strings, its rows; including "</s>" where it was produced.
        text: the output as text.
        score, log_probability, stop_reason: as in `Hypothesis`.
        alignment: (T, S) of the decoder's main attention, or None.
        alignments: by name, (H, T, S).
        warnings: what the user should know about this item.
        alternatives: further predictions, best first.
        generate: (T,), for a pointer the probability that a symbol was generated rather than copied; else None.
        confidence: the probability, from 0 to 1, that the text is right; None of models without confidences.
        least_log_probability: that of the least probable token; 0 without tokens.
        sides: the names of columns and rows in pictures; source and target if None.
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
    generate: Any = None
    confidence: float | None = None
    least_log_probability: float = 0.0
    sides: tuple[str, str] | None = None

    def record(self) -> dict[str, Any]:
        """The prediction as a JSON object, with its alternatives; weights of alignments have six decimals."""
        alternatives = [other._own_record() for other in self.alternatives]
        return {**self._own_record(), "warnings": list(self.warnings), "alternatives": alternatives}

    def _own_record(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "text": self.text,
            "tokens": list(self.tokens),
            "score": self.score,
            "log_probability": self.log_probability,
            "stop_reason": self.stop_reason,
        }
        if self.alignment is not None:
            record["source_tokens"] = list(self.source_tokens)
            record["alignment"] = [[round(weight, DECIMALS) for weight in row] for row in self.alignment.tolist()]
        if self.generate is not None:
            record["generate"] = [round(probability, DECIMALS) for probability in self.generate.tolist()]
        return record

    def _repr_html_(self) -> str:
        """The text with its alignment, for notebooks."""
        from regard.viz import plot_alignment
        from regard.viz.notebook import embedded_page, shown_text

        if self.alignment is None or not self.alignment.numel():
            return shown_text(self.text, *self.warnings)
        return embedded_page(lambda path: plot_alignment(self, path, title=self.text), self.text)

    def __repr__(self) -> str:
        parts = [repr(self.text), f"score={self.score:.4f}", f"stop_reason={self.stop_reason!r}"]
        if self.alignment is not None:
            parts.append(f"alignment {tuple(self.alignment.shape)}")
        if self.warnings:
            parts.append(f"warnings={list(self.warnings)}")
        if self.alternatives:
            parts.append(f"alternatives={[other.text for other in self.alternatives]}")
        return f"Prediction({', '.join(parts)})"


def main_alignment(
    alignments: Mapping[str, Tensor], decoder: object = None, *, layer: str | None = None, head: int | None = None
) -> Tensor | None:
    """The alignment (..., T, S) of a prediction: the mean of `chosen_heads`, or None without alignments."""
    if not alignments:
        return None
    return chosen_heads(alignments, decoder, layer=layer, head=head).mean(-3)


def chosen_heads(
    alignments: Mapping[str, Tensor], decoder: object = None, *, layer: str | None = None, head: int | None = None
) -> Tensor:
    """The heads (..., H, T, S) of one attention, or one of them.

    Args:
        alignments: by name, (..., H, T, S); at least one.
        decoder: may have a `main_attention`, a name.
        layer: a name, or `mean` for the heads of all attentions; `main_name` if None.
        head: counted from 0; all if None.

    Raises:
        ConfigError: if there is no such attention or head, or if the attentions have different positions.
        RegardError: if the decoder's `main_attention` is not among them.

    >>> from torch import ones
    >>> chosen_heads({"cross.0": ones(4, 3, 5), "cross.1": ones(4, 3, 5)}, layer="mean", head=2).shape
    torch.Size([2, 3, 5])
    """
    if layer not in (None, MEAN, *alignments):
        raise ConfigError(f"alignment_layer is {layer!r}, but the alignments are {', '.join(alignments)}.")
    names = list(alignments) if layer == MEAN else [layer or main_name(alignments, decoder)]
    chosen = [alignments[each] for each in names]
    for each, weights in zip(names, chosen):
        if head is not None and not 0 <= head < weights.shape[-3]:
            heads = "one head, number 0" if weights.shape[-3] == 1 else f"{weights.shape[-3]} heads, counted from 0"
            raise ConfigError(f"alignment_head is {head}, but {each} has {heads}.")
    if any(weights.shape[-2:] != chosen[0].shape[-2:] for weights in chosen):
        raise ConfigError(f"alignment_layer is {MEAN!r}, but {', '.join(names)} attend to different positions.")
    if head is not None:
        chosen = [weights[..., head : head + 1, :, :] for weights in chosen]
    return torch.cat(chosen, -3) if len(chosen) > 1 else chosen[0]


def main_name(alignments: Mapping[str, Tensor], decoder: object = None) -> str:
    """The name of the main alignment: the decoder's `main_attention`, or else the last.

    Raises:
        RegardError: if there is no alignment of that name.
    """
    name: str = getattr(decoder, "main_attention", None) or list(alignments)[-1]
    if name not in alignments:
        raise RegardError(f"The decoder's main_attention is {name!r}, but its alignments are {', '.join(alignments)}.")
    return name
