"""The decoder with attention of `tf.contrib.legacy_seq2seq`, as a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention import Memory, vinyals
from regard.errors import ConfigError, DataError, ShapeError, UnsupportedError
from regard.interop.tfa.cells.contract import as_cell, with_tuples
from regard.interop.tfa.layers.dense import Dense
from regard.shapes import Bool, Float, describe

LoopFunction = Callable[[Tensor, int], Tensor]
"""(the last output (B, O), the number of the step) to the next input (B, I)."""
Locations = list[tuple[Tensor, ...]]
"""For each step the weights (B, S) of each head."""


class AttentionDecoder(nn.Module):
    """A recurrent decoder that attends to `attention_states` with its whole new state as the query.

        x_t = W_x [i_t; a_{t-1}] + b_x,   o_t, s_t = cell(x_t, s_{t-1}),
        u_j = v_hᵀ tanh(W_h h_j + U_h s_t + b_h),  α_t = softmax(u),  a_t = [Σ_j α_tj h_j of every head],
        y_t = W_y [o_t; a_t] + b_y,

    with i_t the t-th input and s_t the concatenated tensors of the cell's state (c and h of every LSTM). x_t has the
    width of i_t. The attention is the recipe `vinyals`; a_0 is zeros, or the read with the initial state.

    Args:
        cell: of torch, of `regard.interop.tfa`, or any module with `output_size`, `state_size` and
            `forward(inputs, state) -> (output, state)`; its inputs have `input_size` features.
        output_size: O; the width of the cell's output if None.
        num_heads: H; each head has weights of full width and a read.
        input_size: I, the features of the decoder's inputs.
        attention_size: M, the features of the attention states.

    Raises:
        ConfigError: for fewer than one head.
        UnsupportedError: for an object that is no cell.

    Source: Vinyals et al. 2015 (arXiv 1412.7449), section 2; `attention_decoder` of TensorFlow 1.15, which has no mask
    and returns no locations. `from_tensorflow` takes its weights.

    >>> decoder = AttentionDecoder(nn.LSTMCell(3, 4), num_heads=2, input_size=3, attention_size=6)
    >>> state = (torch.zeros(5, 4), torch.zeros(5, 4))
    >>> outputs, state, locations = decoder([torch.zeros(5, 3)] * 7, state, torch.zeros(5, 9, 6))
    >>> len(outputs), outputs[0].shape, len(locations[0]), locations[0][1].shape
    (7, torch.Size([5, 4]), 2, torch.Size([5, 9]))
    """

    def __init__(
        self, cell: Any, output_size: int | None = None, num_heads: int = 1, *, input_size: int, attention_size: int
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"num_heads is {num_heads}; it must be 1 or more.")
        self.cell: Any = as_cell(cell)
        self.num_heads = num_heads
        self.input_size, self.attention_size = input_size, attention_size
        width: int = self.cell.output_size
        self.output_size = width if output_size is None else output_size
        query_size = _total(self.cell.state_size)
        self.attention = vinyals(query_size=query_size, memory_size=attention_size, num_heads=num_heads)
        self.input_layer = Dense(input_size, input_size=input_size + self.attention.context_size)
        self.output_layer = Dense(self.output_size, input_size=width + self.attention.context_size)

    def forward(
        self,
        decoder_inputs: Sequence[Float[Tensor, "B I"]],
        initial_state: Any,
        attention_states: Float[Tensor, "B S M"],
        loop_function: LoopFunction | None = None,
        initial_state_attention: bool = False,
        *,
        mask: Bool[Tensor, "B S"] | None = None,
    ) -> tuple[list[Float[Tensor, "B O"]], Any, Locations]:
        """Outputs of all steps, the last state, and for each step the weights (B, S) of every head.

        Args:
            decoder_inputs: a tensor (B, I) for each step. With a loop function their number and the first matter.
            initial_state: as the cell has it, (B, D) in every tensor.
            attention_states: (B, S, M), the memory.
            loop_function: (y_{t-1}, t) to i_t, from the second step on.
            initial_state_attention: whether a_0 is the read with the initial state, to continue from a stored state.
            mask: (B, S) bool, True where a position may be attended to. TensorFlow's decoder has none.

        Raises:
            ShapeError: for inputs, states or a mask of the wrong shape; no inputs.
        """
        state = with_tuples(initial_state)
        memory = self._prepare(decoder_inputs, state, attention_states, mask)
        outputs: list[Tensor] = []
        locations: Locations = []
        attended = attention_states.new_zeros(len(attention_states), self.attention.context_size)
        if initial_state_attention:
            attended, _ = self._attend(memory, state)
        for t, inputs in enumerate(decoder_inputs):
            if loop_function is not None and t:
                inputs = loop_function(outputs[-1], t)
            self._check("loop_function's result" if t and loop_function else f"decoder_inputs[{t}]", inputs, memory)
            x = self.input_layer(torch.cat([inputs, attended], -1))
            output, state = self.cell(x, state)
            state = with_tuples(state)
            attended, weights = self._attend(memory, state)
            outputs.append(self.output_layer(torch.cat([output, attended], -1)))
            locations.append(weights)
        return outputs, state, locations

    def from_tensorflow(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state dict from the arrays of the original, by their names within its scope.

        | array | here |
        |---|---|
        | kernel, bias | `input_layer` |
        | AttnW_h (1, 1, M, M) | U of head h: `attention.score.key_projection` |
        | Attention_h/kernel, Attention_h/bias | W and b of head h: `attention.score.query_projection` |
        | AttnV_h (M,) | v of head h: `attention.score.v` |
        | AttnOutputProjection/kernel, AttnOutputProjection/bias | `output_layer` |
        | NAME/… of the cell, as lstm_cell/kernel | `cell`, by its own `from_tensorflow` |

        The query's features have the order of the cell's state, so the cell must be one of `regard.interop.tfa`, whose
        LSTM has c first.

        Raises:
            UnsupportedError: for a cell without `from_tensorflow`.
            DataError: for arrays that are missing or left over, by their names.
        """
        if not hasattr(self.cell, "from_tensorflow"):
            raise UnsupportedError(
                f"{type(self.cell).__name__} has no from_tensorflow: make the decoder with a cell of "
                "regard.interop.tfa, such as tfa.LSTMCell or tfa.GRUCell."
            )
        heads = range(self.num_heads)
        names = ["kernel", "bias", "AttnOutputProjection/kernel", "AttnOutputProjection/bias"]
        names += [f"{name}_{h}" for h in heads for name in ("AttnW", "AttnV")]
        names += [f"Attention_{h}/{name}" for h in heads for name in ("kernel", "bias")]
        cell = {name.partition("/")[2]: value for name, value in weights.items() if name not in names}
        missing = [name for name in names if name not in weights]
        if missing or "" in cell or not cell:
            others = ", ".join(name for name in weights if name not in names) or "none"
            raise DataError(
                f"The arrays of an attention_decoder with {self.num_heads} heads are {', '.join(names)} and those of "
                f"its cell, as lstm_cell/kernel.\n  missing: {', '.join(missing) or 'none'}\n  others: {others}"
            )
        weights = {name: torch.as_tensor(value) for name, value in weights.items()}
        joined = {name: weights[name] for name in ("kernel", "bias")}
        output = {name: weights[f"AttnOutputProjection/{name}"] for name in ("kernel", "bias")}
        score = "attention.score."
        return (
            {f"cell.{name}": value for name, value in self.cell.from_tensorflow(cell).items()}
            | {f"input_layer.{name}": value for name, value in self.input_layer.from_tensorflow(joined).items()}
            | {f"output_layer.{name}": value for name, value in self.output_layer.from_tensorflow(output).items()}
            | {score + "key_projection.weight": torch.cat([weights[f"AttnW_{h}"][0, 0].T for h in heads])}
            | {score + "query_projection.weight": torch.cat([weights[f"Attention_{h}/kernel"].T for h in heads])}
            | {score + "query_projection.bias": torch.cat([weights[f"Attention_{h}/bias"] for h in heads])}
            | {score + "v": torch.stack([weights[f"AttnV_{h}"] for h in heads])}
        )

    def _attend(self, memory: Memory, state: Any) -> tuple[Float[Tensor, "B HM"], tuple[Float[Tensor, "B S"], ...]]:
        """The reads of all heads and their weights, with a state as the query."""
        query = torch.cat(list(tree.leaves(state)), -1)
        attended, _ = self.attention.step(query, memory, self.attention.initial_state(memory), alignment=True)
        return attended.context, attended.alignment.unbind(1)

    def _prepare(self, inputs: Sequence[Tensor], state: Any, attention_states: Tensor, mask: Tensor | None) -> Memory:
        """The memory; the inputs and the state of the first step are checked."""
        if not len(inputs):
            raise ShapeError("decoder_inputs must have an input (B, I) for each step; got none.")
        memory = self.attention.prepare(attention_states, mask=mask)
        for number, part in enumerate(tree.leaves(state)):
            if part.dim() != 2 or len(part) != len(attention_states):
                raise ShapeError(
                    "Every tensor of initial_state must be (B, D), with the B of attention_states.\n"
                    + describe({f"state[{number}]": ("B D", part), "attention_states": ("B S M", attention_states)})
                )
        return memory

    def _check(self, name: str, inputs: Tensor, memory: Memory) -> None:
        """Refuses an input that is not (B, I)."""
        if inputs.shape != (memory.num_sentences, self.input_size):
            raise ShapeError(
                f"{name} must be (B={memory.num_sentences}, I={self.input_size}).\n" + describe({name: ("B I", inputs)})
            )


def _total(size: Any) -> int:
    """The number of features of all tensors of a state."""
    return sum(map(_total, size)) if isinstance(size, (tuple, list)) else int(size)
