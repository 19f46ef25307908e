"""What encoders give, what decoders return, and the verbs of a decoder. Search and training need nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Generator, Tensor

Tree = Any


@dataclass(frozen=True, slots=True)
class Encoded:
    """An encoded source, raw: nothing in it depends on the decoder. Tuples for several sources.

    Args:
        memory: (B, S, M) the encoder's outputs; zero where padded.
        mask: (B, S) bool, True at real positions, or None.
        final_state: tree of B rows: what a bridge makes the decoder's first state from.
        source_ids: (B, S) extended ids of the source tokens, for copying; or None.
        extension: (B, X) bool: which of the X extended ids each source has; or None.
    """

    memory: Any
    mask: Any = None
    final_state: Tree = None
    source_ids: Tensor | None = None
    extension: Tensor | None = None


@dataclass(frozen=True, slots=True)
class DecoderOutput:
    """What a decoder says: log-probabilities of tokens, or values.

    Args:
        log_probabilities: (R, N or N + X) after a step, (B, T, N or N + X) after a sequence; None for values.
        values: (R, F) or (B, T, F) for continuous outputs; None for tokens.
        alignments: by name, (R, H, S) after a step, (B, H, T, S) after a sequence; empty unless asked for.
        auxiliary: by name, further outputs: stop logits, gates, baselines.
    """

    log_probabilities: Tensor | None = None
    values: Tensor | None = None
    alignments: Mapping[str, Tensor] = field(default_factory=dict)
    auxiliary: Mapping[str, Tensor] = field(default_factory=dict)


@runtime_checkable
class Decoder(Protocol):
    """The verbs of a decoder; any module that has them can be searched and trained.

    `main_attention` names the alignment that a prediction shows; without it the last of `alignments` is shown. A
    decoder may also have `cross_entropy(inputs, memory, targets, mask=None, *, smoothing=0.0)`, the sums of
    `losses.cross_entropy` over its teacher-forced outputs, which training then asks for in place of `forward`.
    """

    def prepare(self, encoded: Any) -> Tree:
        """The memory: all that depends on the source alone, B rows in every leaf."""
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
        """All steps, teacher-forced; inputs (B, T) ids or (B, T, F) values are [BOS] + the target without its last."""
        ...
