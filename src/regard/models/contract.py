"""What encoders and decoders return, and the interface of a decoder. Search and training need nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from torch import Generator, Tensor

from regard.attention.contract import Tree as Tree


@dataclass(frozen=True, slots=True)
class Encoded:
    """An encoded source, which does not depend on the decoder. With several sources the first three are tuples.

    Args:
        memory: (B, S, M), the encoder's outputs; zero at padding.
        mask: (B, S) bool, True at real positions, or None.
        final_state: a tree of B rows, from which a bridge computes the decoder's first state.
        source_ids: (B, S), extended ids of the source tokens, -1 where nothing can be copied; or None.
        extension: (B, X) bool, which of the X extended ids each source has; or None.
        grid: (h, w), if the positions are the cells of an image: s = y·w + x, so that S = h·w; or None. With several
            sources a tuple with that of each, or None.
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
        alignments: by name, (R, H, S) after a step, (B, H, T, S) after a sequence; empty unless asked for.
        auxiliary: by name, further outputs: stop logits, gates, quantiles; of hard attention the fields of its `Choice`
            (`attention.index` and so on), (R, H) or (B, T, H), if alignments are asked for.
    """

    log_probabilities: Tensor | None = None
    values: Tensor | None = None
    alignments: Mapping[str, Tensor] = field(default_factory=dict)
    auxiliary: Mapping[str, Tensor] = field(default_factory=dict)


@runtime_checkable
class Decoder(Protocol):
    """The interface of a decoder; any module that has it can be searched and trained.

    `main_attention` names the alignment that a prediction shows; without it the last of `alignments` is shown. A
    decoder may also have `cross_entropy(inputs, memory, targets, mask=None, *, smoothing=0.0)`, the sums of
    `losses.cross_entropy` over its teacher-forced outputs, which training then calls instead of `forward`.
    """

    def prepare(self, encoded: Encoded) -> Tree:
        """The memory: everything that depends only on the source, B rows in every leaf."""
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
        """All steps, teacher-forced: inputs (B, T) ids or (B, T, F) values are [BOS] and the target but its last."""
        ...
