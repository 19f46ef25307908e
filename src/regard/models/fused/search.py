"""A recurrent decoder's step in a search.

Hypotheses that followed the same one have its state, so what is made of only the state is made once for them: the
recurrent products and, where attention comes first, the whole look. With few tokens the input's products are made
once for all of them, and a readout's weights meet the memory, not every context: W Σ α_j v_j = Σ α_j W v_j.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from regard.layers import recorders
from regard.layers.cells.cell import State
from regard.layers.cells.single import STEPS, Packed, of_inputs
from regard.layers.eligibility import DROPOUTS, drops, ineligible
from regard.layers.embedding import TokenEmbedding
from regard.layers.positions import PositionedEmbedding
from regard.layers.recurrent import CellState
from regard.layers.twin import MIN_ROWS, twin
from regard.models.contract import DecoderOutput
from regard.models.fused import located, support
from regard.models.fused.steps import location
from regard.models.naming import named
from regard.models.outputs import output_of
from regard.models.readout import DeepReadout
from regard.ops.choose import loaded, steps_for
from regard.ops.eligibility import refuse_device, refuse_numba, refuse_types
from regard.ops.linear import linear
from regard.ops.linear.storage import stores_bytes

TOKENS_PER_ROW = 2
"""A vocabulary of at most so many tokens a row is multiplied as a whole."""
ROUND = 16
"""Rows that differ are filled up to a multiple: the library prepares itself for every new number of rows."""


@dataclass(frozen=True, slots=True)
class SearchMemory:
    """Which of the first sentences those are that remain, (B,); the twin keeps the rest."""

    sentences: Tensor


@dataclass(frozen=True, slots=True)
class SearchState:
    """Where hypotheses stand.

    Args:
        layers: of each what is fed back and h side by side, (R, F + D), and an LSTM's cells (R, D).
        origin: (R,) the row of the last step that each followed: those of the same one have the same state.
        past: of located energies the channels (R, H, C, S) of earlier weights and their sum (R, H, S); else ().
    """

    layers: CellState
    origin: Tensor
    past: tuple[Tensor, ...] = ()


def refuse(decoder: Any, memory: Any = None, rows: int = MIN_ROWS) -> str | None:
    """Why a decoder's searches have no such step, or None; without a memory, whether they ever can."""
    if decoder.attention is None or decoder.query != "output":
        return "attention must be asked with the cell's output"
    if isinstance(decoder.embedding, PositionedEmbedding):
        return "positions are added to its inputs"
    if decoder.begins_with_zeros:
        return "hypotheses would share a look that the first step does not take"
    attends_first = decoder.order == "attend_then_recur"
    reason = support.refuse(decoder.attention, decoder.stack, decoder.readout, None, decoder.way)
    if reason is not None:
        return reason
    if decoder.readout is not None and (reason := ineligible(decoder.readout, "readout", nn.Linear, DeepReadout)):
        return reason
    if type(decoder.attention.score) in located.LOCATED and not attends_first:
        return f"a {type(decoder.attention.score).__name__} shares its looks only where attention comes first"
    if type(decoder.readout) is DeepReadout:
        for name in ("of_state", "of_context"):
            part = getattr(decoder.readout, name)
            if part is not None and (reason := ineligible(part, f"readout.{name}", nn.Linear)) is not None:
                return reason
    if memory is not None and getattr(memory.attention, "num_positions", 1) == 0:
        return "there is nothing to look at"
    if (reason := ineligible(decoder, "the decoder")) is not None:
        return reason
    if (reason := ineligible(decoder.dropout, "dropout", *DROPOUTS)) is not None:
        return reason
    if drops(decoder.dropout) or drops(decoder.stack.dropout):
        return "dropout is active"
    weights = tuple(decoder.parameters())
    read = None if memory is None else memory.attention.read
    if (reason := refuse_device("cpu", *weights) or refuse_types(*weights, read)) is not None:
        return reason
    is_single = rows < MIN_ROWS and not stores_bytes()  # with bytes a single row is rounded as in a batch
    if memory is not None and (is_single or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu")):
        return "single rows, gradients and autocast are left to the decoder"
    return refuse_numba("regard.ops.attend.numba")


class SearchTwin:
    """Takes a decoder's steps for one search, where nothing is in the way (`refuse`).

    Args:
        decoder: a `RecurrentDecoder`.
        memory: what it prepared.
        rows: as many as there will be, about.
    """

    def __init__(self, decoder: Any, memory: Any, rows: int) -> None:
        stack, mechanism, embedding = decoder.stack, decoder.attention, decoder.embedding
        self.stack, self.embedding, self.attention = stack, embedding, mechanism
        self.first = memory.first_state
        self.attends_first = decoder.order == "attend_then_recur"
        self.reads, self.feeds_context = decoder.reads, decoder.fed == "context"
        self.back = stack.layers[0].input_size - embedding.size
        # products with bytes are not those with all tokens' vectors: the number of rows must not choose between them
        few = not stores_bytes() and _is_table(embedding) and embedding.table.num_embeddings <= TOKENS_PER_ROW * rows
        self.vectors = embedding.table.weight if few else None
        self.cells = [
            STEPS[stack.cell](layer, rows, *(() if index else (self.back, self.vectors)))
            for index, layer in enumerate(stack.layers)
        ]
        self.readout = _readout(decoder, memory.attention.read, self.vectors, rows)
        score, prepared = mechanism.score, memory.attention.score
        energies, keys, (query, self.query_bias), v = support.compare(score, located.keys_of(score, prepared))
        self.of_query = None if query is None else Packed(query, rows=rows)
        options = {"num_heads": mechanism.score.num_heads, "sharpening": mechanism.alignment.softmax_factor}
        gate, self.gate_bias = support.gate_of(mechanism.read)
        self.of_gate = None if gate is None else Packed(gate, rows=rows)
        self.num_gates = 0 if gate is None else len(gate)
        remembered = memory.attention.mask, v
        plan, self.location = located.describe(score, prepared), None
        if plan is None:
            looks = steps_for("attend", "cpu").LOOKS
            self.look = looks[energies](keys, self.readout.values, *remembered, steps=0, **options)
        else:
            first = located.start_of(score, mechanism.initial_state(memory.attention).score)
            self.location = location(plan, located.filters_of(score), first)
            kind = loaded("regard.ops.attend.location", "LocationLook")
            self.look = kind(keys, self.readout.values, *remembered, steps=0, location=self.location, **options)
        self.head = twin(decoder.head, rows)
        self.continuous = decoder.continuous

    def begin(self) -> SearchMemory:
        """The memory that the steps read."""
        return SearchMemory(torch.arange(len(self.first[0][0])))

    def initial_state(self, memory: SearchMemory, num_hypotheses: int = 1) -> SearchState:
        """As the decoder's."""
        origin = memory.sentences.repeat_interleave(num_hypotheses)
        layers = []
        for index, (hidden, *cells) in enumerate(self.first):
            fed = hidden.new_zeros(len(hidden), 0 if index else self.back)
            layers.append(tuple(part[origin] for part in (torch.cat([fed, hidden], 1), *cells)))
        past: tuple[Tensor, ...] = ()
        if (first := self.location) is not None:
            past = first.channels(first.recent, first.recent[:, :, -1])[origin], first.sum[origin]
        return SearchState(tuple(layers), origin, past)

    def step(
        self,
        inputs: Tensor,
        memory: SearchMemory,
        state: SearchState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, SearchState]:
        """As the decoder's."""
        first, parent = _distinct(state.origin)
        sentences = memory.sentences.repeat_interleave(len(inputs) // len(memory.sentences))
        x = self.embedding(inputs) if self.vectors is None else self.embedding.in_vocabulary(inputs)
        parents = [layer[0] if first is None else layer[0].index_select(0, first) for layer in state.layers]
        past = state.past
        if self.attends_first:
            sentences = sentences if first is None else sentences[first]
            past = past if first is None else tuple(part.index_select(0, first) for part in past)
            output, layers, weights, past = self._attend_and_recur(x, state.layers, parents, sentences, parent, past)
        else:
            output, layers, weights = self._recur_and_attend(x, state.layers, parents, sentences, parent)
        recorders.report(self.attention, weights[:, :, None])
        alignments = named("attention", weights if alignment else None)
        outputs = output_of(self.head(output), alignments, continuous=self.continuous)
        return outputs, SearchState(layers, torch.arange(len(inputs)), past)

    def _recur_and_attend(
        self, x: Tensor, layers: CellState, parents: list[Tensor], sentences: Tensor, parent: Tensor | None
    ) -> tuple[Tensor, CellState, Tensor]:
        """The output, the new state and the weights."""
        readout = self.readout
        s, state = self._recur(x, layers, parents, parent)
        if isinstance(readout, _Readout) and readout.projects:
            # Σ α_j W_c v_j (R, F) from projected values, added to W_s s
            context = s.new_empty(len(s), readout.context_size)
            weights = self._attend(s, sentences, context)
            output = readout.of_cell(s, readout.bias)
            if readout.tanh:
                steps_for("cells", "cpu").tanh_of_sum(output, context)
            else:
                output.add_(context)
        else:
            # [s; c] (R, D + V): the look writes c into the last columns, and one product reads both
            read = torch.cat([s, s.new_empty(len(s), readout.context_size)], 1)
            weights = self._attend(s, sentences, read, s.shape[1])
            context = read[:, s.shape[1] :]
            if isinstance(readout, _Readout):
                output = readout.of_cell(read, readout.bias)
                output = output.tanh_() if readout.tanh else output
            else:
                output = readout.say(s, x, readout.share(context))
        if self.back:
            state[0][0][:, : self.back] = context if self.feeds_context else output
        if self.reads == "context":
            output = context.contiguous()
        return s if self.reads == "state" else output, state, weights

    def _attend_and_recur(
        self,
        x: Tensor,
        layers: CellState,
        parents: list[Tensor],
        sentences: Tensor,
        parent: Tensor | None,
        past: tuple[Tensor, ...],
    ) -> tuple[Tensor, CellState, Tensor, tuple[Tensor, ...]]:
        """The same and the past; a look depends on the state only, so hypotheses of one parent share it."""
        readout = self.readout
        # s_{t-1} (U, D) of the parents asks, and c (U, V) goes into the columns of what is fed to the first layer
        s = parents[-1][:, -self.stack.size :]
        parents[0] = parents[0].clone() if parent is None else parents[0]
        if self.location is None:
            weights = self._attend(s, sentences, parents[0])
        else:
            query = s if self.of_query is None else self.of_query(s, self.query_bias)
            weights = self.look.once_after(query, past[0], sentences, parents[0])
            past = self.location.after(*past, weights)
        context = parents[0][:, : self.back]  # (U, V)
        if self.of_gate is not None:
            gate = self.of_gate(s, self.gate_bias).sigmoid_()[..., None]
            context.unflatten(1, (self.num_gates, -1)).mul_(gate)
        read = readout.share(context)
        s, state = self._recur(x, layers, parents, parent)
        output = readout.say(s, x, read if parent is None or read is None else read[parent])
        if parent is not None:
            weights, past = weights[parent], tuple(part[parent] for part in past)
        return output, state, weights, past

    def _recur(
        self, x: Tensor, layers: CellState, parents: list[Tensor], parent: Tensor | None
    ) -> tuple[Tensor, CellState]:
        """The layers' step: the last one's output and the new state."""

        def run(layer: tuple[Callable[..., State], Tensor], x: Tensor, last: State) -> tuple[Tensor, State]:
            cell, shared = layer
            after = cell(x, last, shared, parent)
            return after[0][:, -self.stack.size :], after  # behind the room for what is fed back

        x, state = self.stack.through(run, zip(self.cells, parents, strict=True), x, layers)
        return x.contiguous(), state

    def _attend(self, s: Tensor, sentences: Tensor, contexts: Tensor, column: int = 0) -> Tensor:
        query = s if self.of_query is None else self.of_query(s, self.query_bias)
        weights: Tensor = self.look.once(query, sentences, contexts, column)
        return weights


def _is_table(embedding: Any) -> bool:
    """Whether a token's vector is a row of the embedding's table, and nothing else happens to it."""
    return (
        ineligible(embedding, "embedding", TokenEmbedding) is None
        and ineligible(embedding.table, "embedding.table", nn.Embedding) is None
        and embedding.table.max_norm is None
        and ineligible(embedding.dropout, "embedding.dropout", *DROPOUTS) is None
        and not drops(embedding.dropout)
    )


def _distinct(origin: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """One row of every parent (U,), filled up to a `ROUND` number, and the place among them of each row's parent (R,).

    None, None if most rows have parents of their own.
    """
    parents, rows = origin.numpy(), np.arange(len(origin))
    chosen = np.empty(int(parents.max()) + 1, np.int64)
    chosen[parents] = rows  # the last row of each parent stays
    alike = chosen[parents]
    is_chosen = alike == rows
    first = np.flatnonzero(is_chosen)
    count = -(-len(first) // ROUND) * ROUND
    if count >= len(rows):
        return None, None
    filled = np.zeros(count, np.int64)
    filled[: len(first)] = first
    return torch.from_numpy(filled), torch.from_numpy((np.cumsum(is_chosen) - 1)[alike])


def _readout(decoder: Any, values: Tensor, vectors: Tensor | None, rows: int) -> _Readout | _DeepReadout:
    if decoder.readout is None or type(decoder.readout) is DeepReadout:
        return _DeepReadout(decoder.readout, values, vectors, rows, decoder.attention.score.num_heads)
    return _Readout(decoder, values, vectors, rows)


class _DeepReadout:
    """x + L_h s + L_z c + b, or its tanh; without a readout the state itself."""

    def __init__(self, readout: Any, values: Tensor, vectors: Tensor | None, rows: int, num_heads: int) -> None:
        self.values, self.readout, self.vectors = values, readout, vectors
        self.context_size = num_heads * values.shape[3]
        self.of_state = self.of_context = None
        if readout is not None:
            self.of_state = Packed(readout.of_state.weight, rows=rows)
        if readout is not None and readout.of_context is not None:
            self.of_context = Packed(readout.of_context.weight, rows=rows)

    def share(self, context: Tensor) -> Tensor | None:
        """L_z c (U, E), made once for a parent."""
        return None if self.of_context is None else self.of_context(context)

    def say(self, s: Tensor, x: Tensor, read: Tensor | None) -> Tensor:
        """The head's input."""
        if self.of_state is None:
            return s
        output: Tensor = self.of_state(s, self.readout.of_state.bias)
        if read is not None:
            output.add_(read)
        if self.readout.previous:
            output.add_(x if self.vectors is None else self.vectors[x])
        return output.tanh_() if self.readout.tanh else output


class _Readout:
    """An attention layer, tanh(W [s; c]), or tanh(W [s; x; c]) if attention comes first, or either without tanh.

    Where the cell comes first and nothing else reads the context, a single head's W meets the values.
    """

    def __init__(self, decoder: Any, values: Tensor, vectors: Tensor | None, rows: int) -> None:
        weight, self.bias = decoder.readout.weight, decoder.readout.bias
        self.tanh = decoder.layer == "tanh"
        attends_first, num_heads = decoder.order == "attend_then_recur", decoder.attention.score.num_heads
        of_cell, of_input, of_context = weight.tensor_split(
            [decoder.stack.size, decoder.stack.size + (decoder.embedding.size if attends_first else 0)], 1
        )
        reads_context = "context" in (decoder.fed, decoder.reads)
        self.projects = not attends_first and num_heads == 1 and not reads_context
        self.values = linear(values, of_context) if self.projects else values
        self.context_size = num_heads * self.values.shape[3]
        self.of_cell = Packed(of_cell if self.projects or attends_first else weight, rows=rows)
        if attends_first:
            self.of_input = of_inputs(of_input, None, vectors, rows)
            self.of_context = Packed(of_context, rows=rows)

    def share(self, context: Tensor) -> Tensor:
        """W_c c (U, D), made once for a parent, where attention comes first."""
        shared: Tensor = self.of_context(context)
        return shared

    def say(self, s: Tensor, x: Tensor, read: Tensor | None) -> Tensor:
        """tanh(W [s; x; c] + b), where attention comes first."""
        assert read is not None
        output: Tensor = self.of_cell(s, self.bias).add_(self.of_input(x)).add_(read)
        return output.tanh_() if self.tanh else output
