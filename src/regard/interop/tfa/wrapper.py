"""A cell with attention: `tfa.seq2seq.AttentionWrapper`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.errors import ShapeError, UnsupportedError
from regard.interop.tfa.cells.contract import RNNCell, as_cell, check_order, initial_state, with_tuples
from regard.interop.tfa.layers.deferred import Type, tensors, type_of
from regard.interop.tfa.layers.dense import Dense, width_of
from regard.interop.tfa.layers.originals import Array, FromTensorflow, Pool, parts_of, taken
from regard.interop.tfa.mechanisms.contract import AttentionMechanism
from regard.interop.tfa.state import AlignmentHistory, AttentionWrapperState
from regard.shapes import describe

AttentionFunction = Callable[[Any, Tensor, Tree, Any], tuple[Tensor, Tensor, Tree]]


class AttentionWrapper(FromTensorflow, RNNCell):
    """A recurrent cell with attention, which is fed the attention of the previous step.

    s_t = cell(cell_input_fn(x_t, a_{t-1})),  c_t = attend(s_t),  a_t = layer([s_t; c_t]), or a_t = c_t without a layer.

    The query of every mechanism, including `BahdanauAttention`, is the new output of the cell. a_0 is zeros. With
    several mechanisms a_t is the concatenation of their attentions; alignments, attention states and histories are
    tuples.

    Args:
        cell: an `RNNCell`, or one of torch's cells.
        attention_mechanism: a mechanism or a list of them; each needs a memory before the first step.
        attention_layer_size: the width of a linear layer without bias; a list of widths with several mechanisms.
        alignment_history: whether the state contains the alignments of all steps.
        cell_input_fn: from the inputs and a_{t-1} to the cell's input; [x_t; a_{t-1}] if None.
        output_attention: whether the output is a_t, otherwise the cell's output.
        initial_cell_state: the cell's first state; zeros if None.
        name: without effect.
        attention_layer: a module instead of the linear layer, a list with several mechanisms; not with
            `attention_layer_size`.
        attention_fn: from (mechanism, cell_output, attention_state, attention_layer) to (attention, alignments,
            next_attention_state), instead of `compute_attention`. Its attention must have the width of the layer, or of
            the memory without a layer.
        dtype: of the layers of `attention_layer_size`; that of the inputs if None.

    Raises:
        UnsupportedError: for a layer and its size, or different numbers of layers and mechanisms.

    >>> from regard.interop.tfa import KerasLSTMCell, LuongAttention
    >>> mechanism = LuongAttention(8, memory=torch.zeros(4, 7, 6), memory_sequence_length=[7, 7, 5, 2])
    >>> wrapper = AttentionWrapper(KerasLSTMCell(8), mechanism, attention_layer_size=5)
    >>> output, state = wrapper(torch.zeros(4, 3), wrapper.get_initial_state(batch_size=4))
    >>> output.shape, state.alignments.shape
    (torch.Size([4, 5]), torch.Size([4, 7]))
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: AttentionMechanism | Sequence[AttentionMechanism],
        attention_layer_size: int | Sequence[int] | None = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Tree, Tensor], Tree] | None = None,
        output_attention: bool = True,
        initial_cell_state: Tree = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: AttentionFunction | None = None,
        *,
        dtype: Type = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.cell = as_cell(cell)
        self.is_multi = isinstance(attention_mechanism, (list, tuple, nn.ModuleList))
        mechanisms: Any = attention_mechanism if self.is_multi else [attention_mechanism]
        self.attention_mechanisms: Any = nn.ModuleList(mechanisms)
        if not len(self.attention_mechanisms):
            raise UnsupportedError("attention_mechanism is an empty list: give one or more mechanisms.")
        for mechanism in self.attention_mechanisms:
            if not isinstance(mechanism, AttentionMechanism):
                raise UnsupportedError(
                    f"attention_mechanism must be an AttentionMechanism or a list; got {type(mechanism).__name__}."
                )
        self.attention_layers: Any = self._layers(attention_layer_size, attention_layer, dtype)
        self.keeps_history = alignment_history
        self.cell_input_fn = _joined if cell_input_fn is None else cell_input_fn
        self.output_attention = output_attention
        self.attention_fn: AttentionFunction = compute_attention if attention_fn is None else attention_fn
        self.initial_cell_state = with_tuples(initial_cell_state)
        self._build()
        if initial_cell_state is not None:
            check_order(getattr(self.cell, "state_size", None), self.initial_cell_state, "initial_cell_state")
            self._check_rows(
                tree.rows(self.initial_cell_state),
                "initial_cell_state",
                "tile_batch(state, multiplier=beam_width)",
            )

    def _layers(self, size: Any, layer: Any, dtype: Type) -> nn.ModuleList | None:
        """The attention layers, one for each mechanism, or None."""
        if size is not None and layer is not None:
            raise UnsupportedError("Give attention_layer_size or attention_layer, not both.")
        if size is None and layer is None:
            return None
        name, value = ("attention_layer", layer) if size is None else ("attention_layer_size", size)
        several = list(value) if isinstance(value, (list, tuple, nn.ModuleList)) else [value]
        if len(several) != len(self.attention_mechanisms):
            raise UnsupportedError(
                f"{name} has {len(several)} entries for {len(self.attention_mechanisms)} mechanisms: give one for each."
            )
        if size is not None:
            several = [Dense(int(width), use_bias=False, dtype=dtype, name="attention_layer") for width in several]
        for module in several:
            if not isinstance(module, nn.Module):
                raise UnsupportedError(f"attention_layer must be a module; got {type(module).__name__}.")
        return nn.ModuleList(several)

    def _build(self, like: Tensor | None = None) -> None:
        """Makes the weights of mechanisms with a memory and of their layers."""
        size = self.cell.output_size
        for number, mechanism in enumerate(self.attention_mechanisms):
            if not mechanism.memory_initialized:
                continue
            mechanism.build_for(size, like)
            layer = None if self.attention_layers is None else self.attention_layers[number]
            if isinstance(layer, Dense) and not layer.built and self.attention_fn is compute_attention:
                memory = next(tree.leaves(mechanism.values))
                layer.build(size + mechanism.context_size, like=memory)

    def array_names(self) -> list[str]:
        """Those of the attention layers, of the cell and of the mechanisms."""
        layers = [("attention_layer", each) for each in self.attention_layers or ()]
        mechanisms = [("attention_mechanism", each) for each in self.attention_mechanisms]
        parts = [*layers, ("cell", self.cell), *mechanisms]
        return [f"{role}/{name}" for role, part in parts for name in parts_of(part, role).array_names()]

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        """The arrays in the scopes of attention layers and mechanisms; the others are those of the cell.

        Several layers, or mechanisms of one kind, take their arrays in order.
        """
        state: dict[str, Tensor] = {}
        parts_of(self.cell, "cell")
        for n, layer in enumerate(self.attention_layers or ()):
            names = ("attention_layer", "attention_layers", "_attention_layers", getattr(layer, "name", ""))
            state |= taken(arrays, layer, f"attention_layers.{n}", partial(_is_in_scope, names=names))
        scopes = [_scopes(mechanism) for mechanism in self.attention_mechanisms]
        for n, (mechanism, own) in enumerate(zip(self.attention_mechanisms, scopes, strict=True)):
            others = {scope for each in scopes for scope in each} - own
            belongs = partial(_is_of_mechanism, own=own, others=others)
            state |= taken(arrays, mechanism, f"attention_mechanisms.{n}", belongs)
        return state | taken(arrays, self.cell, "cell", lambda array: True)

    def _item_or_tuple(self, parts: Sequence[Any]) -> Any:
        return tuple(parts) if self.is_multi else parts[0]

    @property
    def attention_size(self) -> int:
        """A, the width of the attention."""
        if self.attention_layers is None:
            return sum(mechanism.context_size for mechanism in self.attention_mechanisms)
        return sum(
            width_of(layer, self.cell.output_size + mechanism.context_size)
            for layer, mechanism in zip(self.attention_layers, self.attention_mechanisms, strict=True)
        )

    @property
    def output_size(self) -> int:
        """A, or the width of the cell's output."""
        return self.attention_size if self.output_attention else self.cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        """The numbers of features of the state; alignments have the sizes of the memories."""
        sizes = [mechanism.alignments_size for mechanism in self.attention_mechanisms]
        return AttentionWrapperState(
            self.cell.state_size,
            self.attention_size,
            self._item_or_tuple(sizes),
            self._item_or_tuple([size if self.keeps_history else () for size in sizes]),
            self._item_or_tuple([mechanism.state_size for mechanism in self.attention_mechanisms]),
        )

    def get_initial_state(
        self, inputs: Tree = None, batch_size: int | None = None, dtype: Type = None
    ) -> AttentionWrapperState:
        """The state before the first step.

        Args:
            inputs: with the rows and type of the state.
            batch_size: R, if there are no inputs; with a beam, sentences times hypotheses.
            dtype: of the state, if there are no inputs; the memory's if None.

        Raises:
            ShapeError: if a memory has another number of rows.
        """
        like = next(tree.leaves(tensors(inputs, self)), None)
        rows = int(batch_size) if like is None and batch_size is not None else None
        if like is not None:
            rows, dtype = like.shape[0], like.dtype if like.is_floating_point() else dtype
        if rows is None:
            raise ShapeError("Give inputs or batch_size, the number of rows of the state.")
        self._check_rows(rows, "the requested state", "tile_batch(encoder_output, beam_width)")
        self._build()
        first = next(tree.leaves(self.attention_mechanisms[0].values))
        kind = type_of(dtype) or first.dtype
        cell_state = self.initial_cell_state
        if cell_state is None:
            cell_state = tree.map(lambda leaf: leaf.to(first.device), initial_state(self.cell, rows, kind))
        alignments = [mechanism.initial_alignments(rows, kind) for mechanism in self.attention_mechanisms]
        return AttentionWrapperState(
            cell_state,
            first.new_zeros(rows, self.attention_size, dtype=kind),
            self._item_or_tuple(alignments),
            self._item_or_tuple([AlignmentHistory() if self.keeps_history else () for _ in alignments]),
            self._item_or_tuple([mechanism.initial_state(rows, kind) for mechanism in self.attention_mechanisms]),
            torch.zeros(rows, dtype=torch.long, device=first.device),
        )

    def forward(self, inputs: Tree, state: Any) -> tuple[Tensor, AttentionWrapperState]:
        """a_t (R, A), or the cell's output, and the next state.

        Args:
            inputs: (R, F), or inputs of `cell_input_fn`.
            state: from `get_initial_state` or the previous step.

        Raises:
            ShapeError: if inputs, state and memories differ in their numbers of rows, or the inputs are ids (R,).
            UnsupportedError: for a state of another kind.
        """
        if not isinstance(state, AttentionWrapperState):
            state = _as_state(state)
        inputs = tensors(inputs, self)
        cell_output, cell_state = self.cell(self.cell_input_fn(inputs, state.attention), state.cell_state)
        self._check_rows(len(cell_output), "the cell's output", "tile_batch(memory, beam_width)")
        states, histories = state.attention_state, state.alignment_history
        if not self.is_multi:
            states, histories = (states,), (histories,)
        layers = self.attention_layers
        attentions, alignments, after = [], [], []
        for number, mechanism in enumerate(self.attention_mechanisms):
            layer = None if layers is None else layers[number]
            attention, alignment, attention_state = self.attention_fn(mechanism, cell_output, states[number], layer)
            attentions.append(attention)
            alignments.append(alignment)
            after.append(attention_state)
        attention = attentions[0] if len(attentions) == 1 else torch.cat(attentions, 1)
        if self.keeps_history:
            histories = tuple(
                AlignmentHistory((*history.steps, alignment))
                for history, alignment in zip(histories, alignments, strict=True)
            )
        next_state = AttentionWrapperState(
            with_tuples(cell_state),
            attention,
            self._item_or_tuple(alignments),
            self._item_or_tuple(histories),
            self._item_or_tuple(after),
            None if state.time is None else state.time + 1,
        )
        return attention if self.output_attention else cell_output, next_state

    def _check_rows(self, rows: int, name: str, advice: str) -> None:
        """Refuses a number of rows that differs from that of a memory."""
        for mechanism in self.attention_mechanisms:
            if (expected := mechanism.batch_size) != rows:
                raise ShapeError(
                    f"{name} has {rows} rows and the memory of {type(mechanism).__name__} has {expected}.\n"
                    "  The memory must be that of this batch: call setup_memory(memory, lengths) for every batch. With "
                    "a BeamSearchDecoder memory, lengths and first state need beam_width copies of every row, by "
                    f"tile_batch (not torch.tile), as {advice}: batch_size * beam_width rows."
                )


def compute_attention(
    attention_mechanism: AttentionMechanism, cell_output: Tensor, attention_state: Tree, attention_layer: Any
) -> tuple[Tensor, Tensor, Tree]:
    """A step of a mechanism in an AttentionWrapper: attention (R, A), alignments (R, S), next state.

    Args:
        attention_mechanism: with a memory.
        cell_output: (R, D), the query.
        attention_state: of the mechanism.
        attention_layer: of [cell_output; context]; None if the attention is the context.
    """
    context, alignments, after = attention_mechanism.attend(cell_output, attention_state)
    if attention_layer is None:
        return context, alignments, after
    return attention_layer(torch.cat([cell_output, context], 1)), alignments, after


def _is_in_scope(array: Array, *, names: tuple[str, ...]) -> bool:
    return array.has(*names)


def _scopes(mechanism: AttentionMechanism) -> set[str]:
    """TensorFlow's scopes of the arrays of a mechanism."""
    kind = type(mechanism).__name__
    return {kind, re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower(), mechanism.name}


def _is_of_mechanism(array: Array, *, own: set[str], others: set[str]) -> bool:
    generic = ("attention_mechanism", "attention_mechanisms", "memory_layer", "query_layer")
    if array.has(*own):
        return True
    return (array.has(*generic) or array.path[-1].startswith("attention_")) and not array.has(*others)


def _joined(inputs: Tensor, attention: Tensor) -> Tensor:
    if not isinstance(inputs, Tensor) or inputs.shape[:-1] != attention.shape[:-1]:
        shown = {"attention": ("R A", attention)} | ({"inputs": ("R F", inputs)} if isinstance(inputs, Tensor) else {})
        raise ShapeError(
            "The inputs of a step must be numbers (R, F), with the rows of the state.\n"
            + describe(shown)
            + "\n  Embed ids first, and begin with a state of as many rows; inputs that are no tensor need a "
            "cell_input_fn."
        )
    return torch.cat([inputs, attention], -1)


def _as_state(state: Any) -> AttentionWrapperState:
    if isinstance(state, (list, tuple)) and len(state) in (5, 6):
        return AttentionWrapperState(*map(with_tuples, state))
    raise UnsupportedError(
        f"state must be an AttentionWrapperState, or its {len(AttentionWrapperState._fields) - 1} fields; got "
        f"{type(state).__name__}. Begin with get_initial_state."
    )
