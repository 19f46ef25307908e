"""The recurrent decoder: attention before or after the cell, with or without input feeding, or no attention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from regard import tree
from regard.attention.contract import Tree, initial_position
from regard.attention.interface import AbstractAttention, prepare_memory
from regard.attention.memory import widened
from regard.errors import ShapeError, UnsupportedError
from regard.layers import recorders
from regard.layers.cells.cell import Cell
from regard.layers.dropout import Dropout
from regard.layers.linear import Linear
from regard.layers.module_weights import overridden
from regard.layers.positions import PositionedEmbedding
from regard.layers.recurrent import CellState, RecurrentStack
from regard.models.bridge import Bridge, FixedContext
from regard.models.contract import DecoderOutput, Encoded
from regard.models.loop import outputs_of_steps, take_steps
from regard.models.outputs import (
    all_steps,
    chosen,
    cross_entropy_by,
    cross_entropy_of,
    main_name,
    named,
    one_step,
    output_of,
    require_head,
)
from regard.models.readout import (
    DeepReadout,
    FirstContext,
    InputFeeding,
    Order,
    Part,
    Reading,
    Readout,
    fed_back,
)
from regard.shapes import Bool, Float, Int

Query = Literal["output", "state"]


@dataclass(frozen=True, slots=True)
class RecurrentMemory:
    """Everything that depends only on the source: attention's memory, first cell state, fixed context (B, M)."""

    attention: Tree
    first_state: CellState
    context: Float[Tensor, "B M"] | None


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """The cell's state, the attention's state, and the features that are fed to the next step.

    Args:
        feed: with input feeding, the features that are fed back, (R, F); with a first context of zeros, (R, 1): 0
            before the first step and 1 afterwards; else None.
        position: with a `PositionedEmbedding`, the number of the next step; else None.
    """

    cell: CellState
    attention: Tree
    feed: Float[Tensor, "R F"] | None
    position: Int[Tensor, " R"] | None = None


@dataclass(frozen=True, slots=True)
class RecurrentFeatures:
    """The features before the head, of a step (R, …) or of a sequence (B, T, …).

    Args:
        output: õ, the input of the head.
        cell: s, the top layer's state, D features.
        context: c; None for a fixed context that is only in the first state.
        embedded: x, the embedded input.
        alignment: (R, H, S) or (B, H, T, S), a tuple of them from `Parallel`; None unless requested.
        auxiliary: the mechanism's further outputs, such as a `Choice`; None unless alignments are requested.
    """

    output: Tensor
    cell: Tensor
    context: Tensor | None
    embedded: Tensor
    alignment: Tree
    auxiliary: Tree = None


class RecurrentDecoder(nn.Module):
    """A recurrent decoder.

    recur_then_attend (Luong):    s_t = cell([x_t; õ_{t-1}], s_{t-1}),  c_t = attend(s_t),  õ_t = tanh(W [s_t; c_t]);
    õ_{t-1} only with `input_feeding`; without it `forward` computes all steps in one operation, unless the query is the
    whole state.
    attend_then_recur (Bahdanau): c_t = attend(s_{t-1}),  s_t = cell([x_t; c_t], s_{t-1}),
    õ_t = tanh(W [s_t; x_t; c_t]).
    Without attention: s_t = cell([x_t; c], s_{t-1}),  õ_t = tanh(W [s_t; c]) with `every_step`; otherwise c is only in
    the first state, and õ_t = s_t.
    x_t is the embedded input; the head computes the output from õ_t. `models.readout.Reading` lists the alternatives
    for `readout`, the features that the head reads, and `input_feeding`, those that are fed back.

    Args:
        embedding: from inputs to (…, E); has `size`. A `PositionedEmbedding` adds positions.
        stack: one direction, over the `input_size` features of x and of the features that are fed back.
        head: from (…, D) to log-probabilities; with `continuous` to values, or to a pair of values and further outputs
            by name, which become `auxiliary`.
        bridge: computes the first state from the encoder's last states.
        attention: a `Mechanism` or `Parallel`; None for a fixed context.
        context: the fixed context vector, if there is no attention.
        query: attention's query, from s_t or s_{t-1}: the top layer's `output`, or the whole `state`: h of all layers
            and, for an LSTM, c, concatenated (`query_size` features).
        every_step: whether the fixed context is an input of every step; otherwise it is only in the first state.
        input_feeding: with recur_then_attend, the features that are fed back.
        dropout: on õ before the head.
        continuous: whether outputs are `values`.
        readout: the features that the head reads.
        layer_size: the features of the attention layer; D if None.
        layer_bias: whether the attention layer has a bias.
        first_context: with attend_then_recur: `zeros` replace the context of s_0 in the first step, whose alignment is
            zeros; attention starts with the second step.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), A.2.2 (with tanh instead of their maxout); Luong, Pham &
    Manning 2015 (arXiv 1508.04025), sections 3 and 3.3; Cho et al. 2014 (arXiv 1406.1078) without attention; the whole
    state as the query: Vinyals et al. 2015 (arXiv 1412.7449), section 2; attention over images: Xu et al. 2015
    (arXiv 1502.03044), section 3.1.2; the last context fed to a cell that recurs first: Chan et al. 2016
    (arXiv 1508.01211), section 3.2, and TensorFlow's AttentionWrapper.
    """

    embedding: Any
    attention: AbstractAttention | None

    def __init__(
        self,
        embedding: nn.Module,
        stack: RecurrentStack,
        head: nn.Module,
        bridge: Bridge,
        *,
        attention: AbstractAttention | None = None,
        context: FixedContext | None = None,
        query: Query = "output",
        order: Order = "recur_then_attend",
        input_feeding: InputFeeding = True,
        every_step: bool = False,
        dropout: float = 0.0,
        continuous: bool = False,
        readout: Readout | DeepReadout = "tanh",
        layer_size: int | None = None,
        layer_bias: bool = True,
        first_context: FirstContext = "attended",
    ) -> None:
        super().__init__()
        if (attention is None) == (context is None):
            raise UnsupportedError("A decoder has either attention or a fixed context.")
        if stack.bidirectional:
            raise UnsupportedError("A decoder cannot run backwards: its stack must have one direction.")
        if query not in ("output", "state"):
            raise UnsupportedError(f"query={query!r} must be 'output' or 'state'.")
        if attention is None and query != "output":
            raise UnsupportedError(f"query={query!r}: without attention there is no query.")
        require_head(head, continuous=continuous)
        self.embedding = embedding
        self.stack = stack
        self.head = head
        self.bridge = bridge
        self.attention = attention
        self.main_attention = main_name("attention", attention)
        self.context = context
        self.query: Query = query
        self.order = order
        self.every_step = every_step
        self.continuous = continuous
        self.dropout = Dropout(dropout)
        attends = attention is not None
        self.reading = Reading.of(
            readout, input_feeding, order, attends=attends, has_context=attends or every_step, first=first_context
        )
        self.widths = {"state": stack.size, "context": 0}
        if attention is not None:
            self.widths["context"] = attention.context_size
        elif context is not None and every_step:
            self.widths["context"] = context.size
        self.readout: nn.Module | None = readout if isinstance(readout, DeepReadout) else None
        if self.reading.layer is not None:
            size = layer_size or stack.size
            width = stack.size + self.widths["context"] + (self.embedding.size if self.reading.reads_input else 0)
            self.readout = Linear(width, size, bias=layer_bias)
            self.widths["readout"] = size
        elif layer_size is not None or not layer_bias:
            raise UnsupportedError("layer_size and layer_bias: this decoder has no attention layer; leave them out.")
        elif isinstance(readout, DeepReadout):
            self.widths["readout"] = readout.size
        self._check_sizes()

    def _check_sizes(self) -> None:
        if self.attention is None:
            return
        if isinstance(self.readout, DeepReadout):
            self.readout.check(self.embedding.size, self.stack.size, self.attention.context_size)
        takes = getattr(self.stack.layers[0], "input_size", None) if type(self.stack) is RecurrentStack else None
        if self.input_feeding and takes is not None and takes != self.embedding.size + self.fed_size:
            raise ShapeError(
                f"The cell reads E={self.embedding.size} features of x and {self.fed_size} that are fed back; "
                f"the stack has {takes}. Build it for RecurrentDecoder.input_size(..., readout=..., layer_size=...), "
                "or use input_feeding=False."
            )

    @property
    def output_size(self) -> int:
        """The features of õ, which the head reads."""
        return self.widths[self.reading.head]

    @property
    def input_feeding(self) -> bool:
        """Whether features of a step are fed to the next one, with recur_then_attend."""
        return self.reading.fed is not None

    @property
    def fed_size(self) -> int:
        """F, the number of features that are fed back; 0 without input feeding."""
        return 0 if self.reading.fed is None else self.widths[self.reading.fed]

    @staticmethod
    def input_size(
        embedding_size: int,
        size: int,
        *,
        attention: AbstractAttention | None = None,
        context: FixedContext | None = None,
        order: Order = "recur_then_attend",
        input_feeding: InputFeeding = True,
        every_step: bool = False,
        readout: Readout | DeepReadout = "tanh",
        layer_size: int | None = None,
    ) -> int:
        """The number of the cell's input features, for these options."""
        if attention is None:
            return embedding_size + (context.size if context is not None and every_step else 0)
        fed = "context" if order == "attend_then_recur" else fed_back(readout, input_feeding)
        of_readout = readout.size if isinstance(readout, DeepReadout) else layer_size or size
        return embedding_size + {None: 0, "context": attention.context_size, "readout": of_readout}[fed]

    @staticmethod
    def query_size(size: int, num_layers: int = 1, *, cell: Cell, query: Query = "output") -> int:
        """Q, the number of features of attention's query, for these options."""
        return size if query == "output" else size * num_layers * (2 if cell == "lstm" else 1)

    def prepare(self, encoded: Encoded) -> RecurrentMemory:
        """Everything that depends only on the source, B rows."""
        if self.attention is not None:
            memory = prepare_memory(self.attention, encoded.memory, encoded.mask, encoded.grid)
            return RecurrentMemory(memory, self.bridge(encoded), None)
        assert self.context is not None
        context = self.context(encoded)
        first_state = self.bridge(encoded, None if self.context.kind == "last" else context)
        return RecurrentMemory(None, first_state, context if self.every_step else None)

    def initial_state(self, memory: RecurrentMemory, num_hypotheses: int = 1) -> RecurrentState:
        """The state before the first step."""
        first = widened(memory.first_state, next(self.stack.parameters(), None))
        cell = tree.map(lambda leaf: leaf.repeat_interleave(num_hypotheses, 0), first)
        state = self.attention.initial_state(memory.attention, num_hypotheses) if self.attention is not None else None
        top, width = cell[-1][0], self.fed_size or int(self.reading.begins_with_zeros)
        rows = top.shape[0]  # not len, which fixes the number of sentences of an export
        position = initial_position(rows, top.device) if isinstance(self.embedding, PositionedEmbedding) else None
        return RecurrentState(cell, state, top.new_zeros(rows, width) if width else None, position)

    def step(
        self,
        inputs: Tensor,
        memory: RecurrentMemory,
        state: RecurrentState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, RecurrentState]:
        """One output step from inputs (R,) ids or (R, F) values."""
        features, state = self.advance(inputs, memory, state, alignment=alignment, generator=generator)
        return self.head_output(features), state

    def forward(
        self, inputs: Tensor, memory: RecurrentMemory, *, alignment: bool = False, generator: Generator | None = None
    ) -> DecoderOutput:
        """All steps, teacher-forced: inputs (B, T) ids or (B, T, F) values."""
        if overridden(self, RecurrentDecoder, "step") is not None:
            return outputs_of_steps(self, inputs, memory, alignment=alignment, generator=generator)
        return self.head_output(self.run(inputs, memory, alignment=alignment, generator=generator))

    def cross_entropy(
        self,
        inputs: Tensor,
        memory: RecurrentMemory,
        targets: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        smoothing: float = 0.0,
        generator: Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The sums of `losses.cross_entropy` over teacher-forced outputs, without log-probabilities where possible.

        If a subclass overrides an output method, `forward` is called.
        """
        if self.continuous or overridden(self, RecurrentDecoder, "forward", "step", "head_output"):
            return cross_entropy_of(self(inputs, memory, generator=generator), targets, mask, smoothing=smoothing)
        features = self.dropout(self.run(inputs, memory, generator=generator).output)
        return cross_entropy_by(self.head, features, targets, mask, smoothing=smoothing)

    def advance(
        self,
        inputs: Tensor,
        memory: RecurrentMemory,
        state: RecurrentState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[RecurrentFeatures, RecurrentState]:
        """`step` without the head."""
        if state.position is not None and inputs.dim() > 1 + inputs.is_floating_point():
            raise ShapeError(one_step(inputs))
        embedded = self._embedded(inputs, state.position)
        if embedded.dim() != 2:
            raise ShapeError(one_step(inputs))
        features, after = self._advance(embedded, memory, state, alignment, generator)
        return features, after if state.position is None else replace(after, position=state.position + 1)

    def run(
        self, inputs: Tensor, memory: RecurrentMemory, *, alignment: bool = False, generator: Generator | None = None
    ) -> RecurrentFeatures:
        """`forward` without the head."""
        steps: Tensor | None = None
        if isinstance(self.embedding, PositionedEmbedding):
            if inputs.dim() < 2 + inputs.is_floating_point():
                raise ShapeError(all_steps(inputs))
            steps = torch.arange(inputs.shape[1], device=inputs.device)
        embedded = self._embedded(inputs, steps)
        if embedded.dim() != 3:
            raise ShapeError(all_steps(inputs))
        state = self.initial_state(memory)
        if self.feeds_back or overridden(self, RecurrentDecoder, "advance", "_advance", "_query"):
            return self._run_steps(inputs, embedded, memory, state, alignment, generator)
        return self._run_whole(embedded, memory, state, alignment, generator)

    def _embedded(self, inputs: Tensor, positions: Tensor | None) -> Tensor:
        embedded: Tensor = self.embedding(inputs) if positions is None else self.embedding(inputs, positions)
        return embedded

    def _run_steps(
        self,
        inputs: Tensor,
        embedded: Tensor,
        memory: RecurrentMemory,
        state: RecurrentState,
        alignment: bool,
        generator: Generator | None,
    ) -> RecurrentFeatures:
        """`run` by a loop of steps, for decoders with feedback."""
        if not isinstance(embedded.shape[1], int):
            raise UnsupportedError(
                f"torch.export cannot loop over a variable number of steps T, and {self.feeds_back}. Export `step` and "
                "loop over it, or export forward for a fixed T."
            )
        if overridden(self, RecurrentDecoder, "advance") is not None:
            options: dict[str, Any] = {"alignment": alignment, "generator": generator}
            return take_steps(lambda x, state: self.advance(x, memory, state, **options), state, inputs)
        return take_steps(lambda x, state: self._advance(x, memory, state, alignment, generator), state, embedded)

    def head_output(self, features: RecurrentFeatures) -> DecoderOutput:
        """The decoder's output from the features of `advance` or `run`."""
        outputs = self.head(self.dropout(features.output))
        alignments, choices = named("attention", features.alignment), chosen("attention", features.auxiliary)
        output = output_of(outputs, alignments, continuous=self.continuous)
        return replace(output, auxiliary={**output.auxiliary, **choices}) if choices else output

    @property
    def feeds_back(self) -> str | None:
        """Why steps are computed one by one; None if all are one operation."""
        if self.attention is None:
            return None
        if self.order == "attend_then_recur":
            return "the context is an input of the cell"
        if self.input_feeding:
            part = "context" if self.reading.fed == "context" else "attentional output"
            return f"the last {part} is an input of the cell"
        return "the query is the state of all layers" if self.query == "state" else None

    def _advance(
        self,
        embedded: Tensor,
        memory: RecurrentMemory,
        state: RecurrentState,
        alignment: bool,
        generator: Generator | None,
    ) -> tuple[RecurrentFeatures, RecurrentState]:
        """One step from embedded inputs (R, E)."""
        if self.attention is None:
            context, cell_input = memory.context, embedded
            if context is not None:
                context = context.repeat_interleave(embedded.shape[0] // max(context.shape[0], 1), 0)
                cell_input = torch.cat([embedded, context], -1)
            output, cell = self.stack.step(cell_input, state.cell)
            return self._read_out(output, context, embedded), RecurrentState(cell, None, None)
        attend = partial(self.attention.step, inputs=embedded, alignment=alignment, generator=generator)
        feed: Tensor | None = None
        if self.order == "attend_then_recur":
            query = self._query(state.cell[-1][0], state.cell)
            if state.feed is None:
                attended, attention = attend(query, memory.attention, state.attention)
            else:
                # at its first step a row reads zeros, and its attention keeps its first state
                zeroed = partial(_only_where, state.feed > 0)
                with recorders.changed(zeroed):
                    attended, attention = attend(query, memory.attention, state.attention)
                weights = tree.map(zeroed, attended.alignment)
                attended = replace(attended, context=zeroed(attended.context), alignment=weights)
                attention = tree.map(zeroed, attention, state.attention)
                feed = torch.ones_like(state.feed)
            output, cell = self.stack.step(torch.cat([embedded, attended.context], -1), state.cell)
        else:
            cell_input = embedded if state.feed is None else torch.cat([embedded, state.feed], -1)
            output, cell = self.stack.step(cell_input, state.cell)
            query = self._query(output, cell)
            attended, attention = attend(query, memory.attention, state.attention)
        features = self._read_out(output, attended.context, embedded, attended.alignment)
        if alignment:
            features = replace(features, auxiliary=attended.auxiliary)
        if (fed := self.reading.fed) is not None:
            is_read = fed == self.reading.head
            feed = features.output if is_read else self._part(fed, output, attended.context, embedded)
        return features, RecurrentState(cell, attention, feed)

    def _query(self, output: Tensor, cell: CellState) -> Tensor:
        return output if self.query == "output" else torch.cat([part for layer in cell for part in layer], -1)

    def _run_whole(
        self,
        embedded: Tensor,
        memory: RecurrentMemory,
        state: RecurrentState,
        alignment: bool,
        generator: Generator | None,
    ) -> RecurrentFeatures:
        """`run` without feedback: the cell over the whole target, then attention of all steps in one operation."""
        context, cell_input = memory.context, embedded
        if context is not None:
            context = context[:, None].expand(-1, embedded.shape[1], -1)
            cell_input = torch.cat([embedded, context], -1)
        output, _ = self.stack(cell_input, state.cell)
        if self.attention is None:
            return self._read_out(output, context, embedded)
        attended, _ = self.attention(
            output, memory.attention, state.attention, inputs=embedded, alignment=alignment, generator=generator
        )
        features = self._read_out(output, attended.context, embedded, attended.alignment)
        return replace(features, auxiliary=attended.auxiliary) if alignment else features

    def _read_out(
        self, cell: Tensor, context: Tensor | None, embedded: Tensor, alignment: Tree = None
    ) -> RecurrentFeatures:
        """The features of a step or a sequence, with the part that the head reads."""
        output = self._part(self.reading.head, cell, context, embedded)
        return RecurrentFeatures(output, cell, context, embedded, alignment)

    def _part(self, part: Part, cell: Tensor, context: Tensor | None, embedded: Tensor) -> Tensor:
        if part == "state":
            return cell
        assert context is not None
        if part == "context":
            return context
        assert self.readout is not None
        if self.reading.layer is None:
            deep: Tensor = self.readout(cell, embedded, context)
            return deep
        output: Tensor = self.readout(
            torch.cat([cell, embedded, context] if self.reading.reads_input else [cell, context], -1)
        )
        return output.tanh() if self.reading.layer == "tanh" else output


def _only_where(begun: Tensor, later: Tensor, first: Tensor | None = None) -> Tensor:
    """Rows of `later` that have `begun` (R, 1), the others of `first` or zeros."""
    rows = begun.view(-1, *[1] * (later.dim() - 1))
    return torch.where(rows, later, torch.zeros_like(later) if first is None else first)
