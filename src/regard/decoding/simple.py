"""A decoder from two functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from regard import tree
from regard.errors import ShapeError
from regard.models.contract import DecoderOutput, Tree
from regard.shapes import describe, num_hypotheses


class SimpleDecoder:
    """A decoder for all searches, from two functions that do not depend on beams.

    `init(source)` returns `(memory, state)`, trees with B rows: the memory is constant, the state changes at every
    step. `step(ids, memory, state)` returns `(log_probabilities, state)`, or `(log_probabilities, state, alignment)`
    with weights (R, S) or (R, H, S), which are named "attention". All its arguments have R rows: this class repeats the
    sentences for their hypotheses, and the search reorders them.

    Args:
        init, step: the functions.
        expand_memory: whether `step` receives a memory of R rows, copied at each step, or one of B rows, for a step
            that processes the hypotheses of a sentence together (`query.view(B, K, -1)`).

    >>> chain = torch.tensor([[0.1, 0.7, 0.2], [0.4, 0.1, 0.5]]).log()  # row: last token; column: next; 2 ends
    >>> decoder = SimpleDecoder(lambda source: (source, None), lambda ids, memory, _: (chain[ids], None))
    >>> from regard.decoding import Search, search
    >>> search(decoder, decoder.prepare(torch.zeros(1, 4)), Search(beam=2), bos=0, eos=2, max_length=5)
    [[Hypothesis([1, 2], score=-0.9571, log_probability=-1.0498, stop_reason='eos')]]
    """

    def __init__(
        self,
        init: Callable[[Any], tuple[Tree, Tree]],
        step: Callable[..., tuple[Any, ...]],
        *,
        expand_memory: bool = True,
    ) -> None:
        self._init, self._step, self._expand_memory = init, step, expand_memory

    def prepare(self, encoded: Any) -> Tree:
        """The result of `init`: the memory and the first state, B rows."""
        memory, state = self._init(encoded)
        return (memory, state)

    def initial_state(self, memory: Tree, num_hypotheses: int = 1) -> Tree:
        """The first state, repeated for every hypothesis."""
        return _repeat(memory[1], num_hypotheses)

    def step(
        self, inputs: Tensor, memory: Tree, state: Tree, *, alignment: bool = False, generator: Generator | None = None
    ) -> tuple[DecoderOutput, Tree]:
        """One call of the step function; `generator` is not used."""
        source = memory[0]
        if self._expand_memory:
            source = _repeat(source, num_hypotheses(len(inputs), tree.rows(memory)))
        log_probabilities, state, *rest = self._step(inputs, source, state)
        alignments = {}
        if alignment and rest and rest[0] is not None:
            alignments["attention"] = rest[0][:, None] if rest[0].dim() == 2 else rest[0]
        return DecoderOutput(log_probabilities=log_probabilities, alignments=alignments), state

    def forward(
        self, inputs: Tensor, memory: Tree, *, alignment: bool = False, generator: Generator | None = None
    ) -> DecoderOutput:
        """The loop of steps over inputs (B, T)."""
        if inputs.dim() != 2 or inputs.shape[1] == 0:
            raise ShapeError("inputs must be (B, T) ids with T ≥ 1.\n" + describe({"inputs": ("B T", inputs)}))
        state = self.initial_state(memory)
        log_probabilities: list[Any] = []
        alignments: list[Mapping[str, Tensor]] = []
        for ids in inputs.unbind(1):
            output, state = self.step(ids, memory, state, alignment=alignment)
            log_probabilities.append(output.log_probabilities)
            alignments.append(output.alignments)
        return DecoderOutput(
            log_probabilities=torch.stack(log_probabilities, 1),
            alignments={name: torch.stack([weights[name] for weights in alignments], 2) for name in alignments[0]},
        )


def _repeat(rows: Tree, times: int) -> Tree:
    return rows if times == 1 else tree.map(lambda leaf: leaf.repeat_interleave(times, 0), rows)
