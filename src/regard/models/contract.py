"""The outputs of encoders and decoders, and the methods of a decoder, which are all that search and training call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from torch import Generator, Tensor

from regard.attention.contract import Tree as Tree


@dataclass(frozen=True, slots=True)
class Encoded:
    """An encoded source. With several sources the first three fields are tuples.

    Args:
        memory: (B, S, M), the encoder's outputs; zero at padding.
        mask: (B, S) bool, True at real positions, or None.
        final_state: a tree with B rows, from which a bridge computes the decoder's first state.
        source_ids: (B, S), extended ids of the source tokens, -1 where nothing can be copied; or None.
        extension: (B, X) bool, the extended ids that each source has, of X; or None.
        grid: (h, w), if the positions are the cells of an image: s = y·w + x, S = h·w; or None. A tuple of them with
            several sources.
    """

    memory: Tree
    mask: Tree = None
    final_state: Tree = None
    source_ids: Tensor | None = None
    extension: Tensor | None = None
    grid: Tree = None


@dataclass(frozen=True, slots=True)
class DecoderOutput:
    """A decoder's output: log-probabilities of tokens, or values.

    Args:
        log_probabilities: (R, N or N + X) after a step, (B, T, N or N + X) after a sequence; None for values.
        values: (R, F) or (B, T, F) for continuous outputs; None for tokens.
        alignments: by name, (R, H, S) after a step, (B, H, T, S) after a sequence; empty unless requested.
        auxiliary: by name, further outputs: stop logits, gates, quantiles; with alignments of hard attention, the
            fields of its `Choice` (`attention.index` and so on), (R, H) or (B, T, H).
    """

    log_probabilities: Tensor | None = None
    values: Tensor | None = None
    alignments: Mapping[str, Tensor] = field(default_factory=dict)
    auxiliary: Mapping[str, Tensor] = field(default_factory=dict)


@runtime_checkable
class Decoder(Protocol):
    """The methods of a decoder; any module that has them can be searched and trained.

    An attribute `main_attention` may name the alignment that predictions show; without it that is the last one. A
    method `cross_entropy(inputs, memory, targets, mask=None, *, smoothing=0.0)`, the sums of `losses.cross_entropy`
    over teacher-forced outputs, replaces `forward` in training.
    """

    def prepare(self, encoded: Encoded) -> Tree:
        """The memory, which depends only on the source: B rows in every leaf."""
        ...

    def initial_state(self, memory: Tree, num_hypotheses: int = 1) -> Tree:
        """The state before the first step: R = B·num_hypotheses rows in every leaf."""
        ...

    def step(
        self, inputs: Tensor, memory: Tree, state: Tree, *, alignment: bool = False, generator: Generator | None = None
    ) -> tuple[DecoderOutput, Tree]:
        """One output step from inputs (R,) ids or (R, F) values."""
        ...

    def forward(
        self, inputs: Tensor, memory: Tree, *, alignment: bool = False, generator: Generator | None = None
    ) -> DecoderOutput:
        """All steps, teacher-forced: inputs (B, T) ids or (B, T, F) values are [BOS] and the target without its
        last."""
        ...
