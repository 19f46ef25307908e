"""Ensembles: the predictions of several models are averaged at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, log
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from regard.errors import ConfigError, ShapeError, UnsupportedError
from regard.models.contract import Decoder, DecoderOutput, Encoded, Tree
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.loop import for_search
from regard.shapes import Bool, Int, describe

Averaged = Literal["probabilities", "log_probabilities"]


class EnsembleDecoder(nn.Module):
    """The average of several decoders: p(y) = Σ_i w_i p_i(y), or p(y) ∝ Π_i p_i(y)^w_i.

    It has the methods of a decoder. Memory and state are tuples of those of its members, which may be of any kinds.
    Alignments are those of the members, `0.attention`, `1.cross.0`, and last the main one: `mean`, (R, 1, S), the
    weighted mean of the members' main alignments (the mean over heads), or that of the member `main`.

    If members have different numbers of outputs (a pointer has outputs of the source besides the vocabulary), missing
    ones have the probability 0.

    Args:
        decoders: two or more, over one vocabulary.
        weights: positive, one for each; they are divided by their sum. Equal if None.
        average: whether probabilities or their logarithms are averaged (the result is normalised again).
        main: the member with the main alignment; their mean if None.
        main_attentions: the name of each member's main alignment; its `main_attention`, or else its last, if None.

    Raises:
        ConfigError: for fewer than two decoders, or weights that are not positive numbers, one for each.
        ShapeError: for outputs of a step with different rows, or alignments over sources of different lengths, which
            have no mean.
        UnsupportedError: for decoders of values.

    >>> from regard.decoding import Search, SimpleDecoder, search
    >>> chains = (torch.tensor([[a, 1 - a], [0.2, 0.8]]).log() for a in (0.9, 0.3))
    >>> members = [SimpleDecoder(lambda x: (x, None), lambda ids, memory, _, p=p: (p[ids], None)) for p in chains]
    >>> ensemble = EnsembleDecoder(members, weights=[3, 1])
    >>> memory = ensemble.prepare(torch.zeros(1, 4))
    >>> output, _ = ensemble.step(torch.tensor([0]), memory, ensemble.initial_state(memory))
    >>> output.log_probabilities.exp()
    tensor([[0.7500, 0.2500]])
    """

    def __init__(
        self,
        decoders: Sequence[Decoder],
        *,
        weights: Sequence[float] | None = None,
        average: Averaged = "probabilities",
        main: int | None = None,
        main_attentions: Sequence[str | None] | None = None,
    ) -> None:
        super().__init__()
        count = len(decoders)
        if count < 2:
            raise ConfigError(f"An ensemble needs two decoders or more; got {count}.")
        positive = [1.0] * count if weights is None else [float(weight) for weight in weights]
        if len(positive) != count or not all(0 < weight < inf for weight in positive):
            raise ConfigError(f"weights={positive}: expected {count} positive numbers, one for each decoder.")
        if average not in ("probabilities", "log_probabilities"):
            raise ConfigError(f"average={average!r}: expected probabilities or log_probabilities.")
        if main is not None and not 0 <= main < count:
            raise ConfigError(f"main={main}: expected the number of a member, 0 to {count - 1}, or None for the mean.")
        modules = [decoder for decoder in decoders if isinstance(decoder, nn.Module)]
        self.members: Any = nn.ModuleList(modules) if len(modules) == count else tuple(decoders)
        self.weights = tuple(weight / sum(positive) for weight in positive)
        self.average, self.main = average, main
        named = [getattr(decoder, "main_attention", None) for decoder in decoders]
        self.main_attentions = tuple(named if main_attentions is None else main_attentions)

    def prepare(self, encoded: Encoded | Sequence[Any]) -> tuple[Tree, ...]:
        """The members' memories.

        Args:
            encoded: one source for all members, or a list with that of each.
        """
        if isinstance(encoded, list | tuple) and len(encoded) != len(self.members):
            raise ShapeError(f"The ensemble has {len(self.members)} members; got {len(encoded)} encoded sources.")
        each = encoded if isinstance(encoded, list | tuple) else [encoded] * len(self.members)
        return tuple(member.prepare(source) for member, source in zip(self.members, each))

    def initial_state(self, memory: tuple[Tree, ...], num_hypotheses: int = 1) -> tuple[Tree, ...]:
        """The members' states before the first step."""
        return tuple(member.initial_state(each, num_hypotheses) for member, each in zip(self.members, memory))

    def step(
        self,
        inputs: Tensor,
        memory: tuple[Tree, ...],
        state: tuple[Tree, ...],
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, tuple[Tree, ...]]:
        """A step of every member from the same inputs (R,) ids."""
        options = _options(alignment, generator)
        steps = [member.step(inputs, *trees, **options) for member, *trees in zip(self.members, memory, state)]
        return self._together([output for output, _ in steps]), tuple(after for _, after in steps)

    def forward(
        self, inputs: Tensor, memory: tuple[Tree, ...], *, alignment: bool = False, generator: Generator | None = None
    ) -> DecoderOutput:
        """All steps of every member, teacher-forced: inputs (B, T) ids."""
        options = _options(alignment, generator)
        return self._together([member.forward(inputs, each, **options) for member, each in zip(self.members, memory)])

    def for_search(self, memory: tuple[Tree, ...], num_rows: int) -> tuple[EnsembleDecoder, tuple[Tree, ...]]:
        """An ensemble of the objects that take the members' steps in a search, and their memories."""
        pairs = [for_search(member, each, num_rows) for member, each in zip(self.members, memory)]
        members, memories = [member for member, _ in pairs], tuple(each for _, each in pairs)
        if all(replaced is member for replaced, member in zip(members, self.members)):
            return self, memories
        options: dict[str, Any] = {"weights": self.weights, "average": self.average, "main": self.main}
        return EnsembleDecoder(members, **options, main_attentions=self.main_attentions), memories

    @property
    def max_length(self) -> int | None:
        """The smallest `max_length` of the members; None without a limit."""
        return _least(self.members)

    def _together(self, outputs: Sequence[DecoderOutput]) -> DecoderOutput:
        members = [output.log_probabilities for output in outputs if output.log_probabilities is not None]
        if len(members) < len(outputs):
            raise UnsupportedError("A member of the ensemble returns values, not tokens; only tokens can be averaged.")
        if len({each.shape[:-1] for each in members}) > 1:
            shapes = {f"log_probabilities of member {i}": ("… N", each) for i, each in enumerate(members)}
            raise ShapeError("Members must return the same number of rows and steps.\n" + describe(shapes))
        auxiliary = {f"{i}.{name}": x for i, output in enumerate(outputs) for name, x in output.auxiliary.items()}
        return DecoderOutput(self._averaged(members), alignments=self._aligned(outputs), auxiliary=auxiliary)

    def _averaged(self, members: Sequence[Tensor]) -> Tensor:
        """The average of the members' log-probabilities (…, N)."""
        widest = max(each.shape[-1] for each in members)
        wide = [
            pad(each, (0, widest - each.shape[-1]), value=-inf) if each.shape[-1] < widest else each for each in members
        ]
        if self.average == "probabilities":
            return torch.stack([each + log(weight) for each, weight in zip(wide, self.weights)]).logsumexp(0)
        mean = torch.stack([each * weight for each, weight in zip(wide, self.weights)]).sum(0)
        total = mean.logsumexp(-1, keepdim=True)
        return mean - total.masked_fill(total.isneginf(), 0)

    def _aligned(self, outputs: Sequence[DecoderOutput]) -> Mapping[str, Tensor]:
        """The alignments of all members by name, the main one last."""
        named = {f"{i}.{name}": x for i, output in enumerate(outputs) for name, x in output.alignments.items()}
        mains = {
            i: f"{i}.{name or list(output.alignments)[-1]}"
            for i, (name, output) in enumerate(zip(self.main_attentions, outputs))
            if output.alignments
        }
        if self.main is not None:
            chosen = mains.get(self.main)
            return (
                named if chosen is None else {**{n: x for n, x in named.items() if n != chosen}, chosen: named[chosen]}
            )
        if not mains:
            return named
        weights = torch.tensor([self.weights[i] for i in mains])
        shares = (weights / weights.sum()).tolist()
        each = [named[name].mean(1, keepdim=True) * share for name, share in zip(mains.values(), shares)]
        if len({weight.shape for weight in each}) > 1:
            raise ShapeError(
                "Alignments of members with different shapes have no mean; choose one with `main`.\n"
                + describe({name: ("R H … S", named[name]) for name in mains.values()})
            )
        return {**named, "mean": torch.stack(each).sum(0)}


class EnsembleEncoder(nn.Module):
    """The encoders of the members of an `EnsembleDecoder`, which read one source.

    Args:
        encoders: their `encode` takes a source and its mask.
    """

    def __init__(self, encoders: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members: Any = nn.ModuleList(encoders)

    def encode(self, source: Tensor, mask: Bool[Tensor, "B S"] | None = None) -> tuple[Any, ...]:
        """The result of each encoder for a source (B, S) of ids or (B, S, F) of values."""
        return tuple(member.encode(source, mask) for member in self.members)

    @property
    def max_length(self) -> int | None:
        """The smallest `max_length` of the members; None without a limit."""
        return _least(self.members)


class EnsembleEncoderDecoder(EncoderDecoder):
    """An ensemble of models of encoder and decoder that read one source.

    Args:
        members: two or more.
        options: those of `EnsembleDecoder`.
    """

    def __init__(self, members: Sequence[EncoderDecoder], **options: Any) -> None:
        super().__init__(
            EnsembleEncoder([member.encoder for member in members]),
            EnsembleDecoder([member.decoder for member in members], **options),
        )

    def prepare(
        self,
        source: Tensor,
        mask: Bool[Tensor, "B S"] | None = None,
        *,
        source_ids: Int[Tensor, "B S"] | None = None,
        extension: Bool[Tensor, "B X"] | None = None,
    ) -> Tree:
        """The members' memories of a batch of sources; arguments as in `EncoderDecoder`."""
        encoded = self.encoder.encode(source, mask)
        if source_ids is not None:
            encoded = tuple(replace(each, source_ids=source_ids, extension=extension) for each in encoded)
        return self.decoder.prepare(encoded)


def _options(alignment: bool, generator: Generator | None) -> dict[str, Any]:
    """The options of a step; a generator only if given, as not every decoder has this argument."""
    return {"alignment": alignment} if generator is None else {"alignment": alignment, "generator": generator}


def _least(members: Sequence[Any]) -> int | None:
    """The smallest `max_length` of those that have one."""
    return min((most for member in members if (most := getattr(member, "max_length", None)) is not None), default=None)
