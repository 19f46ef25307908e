"""Keras' recurrent layers over whole sequences: `RNN`, `LSTM`, `GRU` and `Bidirectional`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from inspect import signature
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as dropped

from regard import tree
from regard.attention.contract import Tree
from regard.errors import ConfigError, ShapeError, UnsupportedError
from regard.interop.tfa.cells.contract import as_cell, initial_state, with_tuples
from regard.interop.tfa.cells.gru import KerasGRUCell
from regard.interop.tfa.cells.lstm import KerasLSTMCell
from regard.interop.tfa.cells.wrappers import MultiRNNCell
from regard.interop.tfa.layers.deferred import DeferredModule, tensors
from regard.interop.tfa.layers.originals import Array, FromTensorflow, Pool, parts_of, taken
from regard.interop.tfa.structure import carry
from regard.shapes import Bool, Float, describe


class KerasRNN(FromTensorflow):
    """All steps of a cell over sequences, as `tf.keras.layers.RNN`.

    Args:
        cell: a cell, or a list of cells one above the other.
        return_sequences: whether the outputs of all steps are returned and not the last one.
        return_state: whether the last state is returned, too.
        go_backwards: whether steps and outputs go from the last position to the first.
        dropout: the probability that a feature of the inputs is dropped in all steps of a sequence, in training.
        stateful: only False; give the last state as `initial_state`.
        unroll, time_major: without effect, and only False.
        name: without effect.

    >>> from regard.interop.tfa import KerasLSTMCell
    >>> KerasRNN([KerasLSTMCell(4), KerasLSTMCell(5)])(torch.zeros(2, 7, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        time_major: bool = False,
        *,
        dropout: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__()
        for option, value, advice in (
            ("stateful", stateful, "give the last state of a batch as initial_state of the next"),
            ("time_major", time_major, "give inputs (B, T, F)"),
        ):
            if value:
                raise UnsupportedError(f"{option}=True: leave it out, and {advice}.")
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout={dropout} must be a probability from 0 to below 1.")
        self.cell: Any = MultiRNNCell(cell) if isinstance(cell, (list, tuple)) else as_cell(cell)
        self.return_sequences, self.return_state, self.go_backwards = return_sequences, return_state, go_backwards
        self.dropout, self.unroll, self.name = dropout, unroll, name

    def array_names(self) -> list[str]:
        return parts_of(self.cell, "cell").array_names()

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        return taken(arrays, self.cell, "cell", lambda array: True)

    def forward(
        self,
        inputs: Float[Tensor, "B T F"],
        initial_state: Tree = None,
        mask: Bool[Tensor, "B T"] | None = None,
        training: bool | None = None,
    ) -> Any:
        """The last output (B, D), or all outputs (B, T, D); with `return_state` a tuple of these and the last state's
        tensors.

        Args:
            initial_state: [h, c] of an LSTM, h or [h] of a GRU, a state for each cell of a stack; zeros if None.
            mask: True at real steps. At the others the previous state and output are repeated; zeros before the first.
            training: whether dropout applies; the module's mode if None.

        Raises:
            ShapeError: for inputs that are not (B, T, F), no steps, or another mask.
        """
        inputs = tensors(inputs, self)
        if not isinstance(inputs, Tensor) or inputs.dim() != 3 or not inputs.shape[1]:
            raise ShapeError(
                f"The inputs of a {type(self).__name__} are (B, T, F), with one step or more; got "
                + (f"{tuple(inputs.shape)}." if isinstance(inputs, Tensor) else f"{type(inputs).__name__}.")
            )
        mask = None if mask is None else torch.as_tensor(mask, device=inputs.device)
        if mask is not None and (mask.shape != inputs.shape[:2] or mask.dtype != torch.bool):
            raise ShapeError(
                "mask must be bool (B, T), True at real steps.\n"
                + describe({"mask": ("B T", mask), "inputs": ("B T F", inputs)})
            )
        if self.dropout and (self.training if training is None else training):
            inputs = inputs * dropped(torch.ones_like(inputs[:, :1]), self.dropout)
        if self.go_backwards:
            inputs, mask = inputs.flip(1), None if mask is None else mask.flip(1)
        state = self._first_state(initial_state, inputs)
        outputs: list[Tensor] = []
        for t, x in enumerate(inputs.unbind(1)):
            output, after = self.cell(x, state)
            after = with_tuples(after)
            if mask is not None:
                skipped = ~mask[:, t]
                output = carry(skipped, outputs[-1] if outputs else torch.zeros_like(output), output)
                after = carry(skipped, state, after)
            state = after
            outputs.append(output)
        result = torch.stack(outputs, 1) if self.return_sequences else outputs[-1]
        if not self.return_state:
            return result
        has_parts = isinstance(state, tuple) and not hasattr(state, "_fields")
        return (result, *(state if has_parts else (state,)))

    def _first_state(self, state: Any, inputs: Tensor) -> Tree:
        state = with_tuples(state)
        if state is None:
            zeros = initial_state(self.cell, len(inputs), inputs.dtype)
            return tree.map(lambda part: part.to(inputs.device), zeros)
        if isinstance(self.cell.state_size, int) and isinstance(state, tuple) and len(state) == 1:
            return state[0]
        return state


OPTIONS = signature(KerasRNN).parameters.keys() - {"cell"}


class AbstractLayer(KerasRNN):
    """A layer that makes its cell.

    Args:
        arguments: those of the cell, except `dropout` and `name`.
        implementation: without effect.
        options: of the layer and of the cell.
    """

    cell_type: type[KerasLSTMCell | KerasGRUCell]

    def __init__(self, *arguments: Any, implementation: int = 2, **options: Any) -> None:
        own = {name: options.pop(name) for name in OPTIONS & options.keys()}
        super().__init__(self.cell_type(*arguments, **options), **own)
        self.units, self.implementation = self.cell.units, implementation


class KerasLSTM(AbstractLayer):
    """`tf.keras.layers.LSTM`. The state is [h, c]; with `return_state` it returns (outputs, h, c).

    Args:
        units, activation, recurrent_activation, use_bias, unit_forget_bias, dtype, input_size: as in `KerasLSTMCell`.
        kernel_initializer, recurrent_initializer, bias_initializer: as there.
        dropout, return_sequences, return_state, go_backwards, stateful, unroll, time_major, name: as in `KerasRNN`.
        recurrent_dropout: only 0.
        implementation: without effect.

    >>> outputs, h, c = KerasLSTM(4, return_sequences=True, return_state=True)(torch.ones(2, 5, 3))
    >>> outputs.shape, torch.equal(outputs[:, -1], h)
    (torch.Size([2, 5, 4]), True)
    """

    cell_type = KerasLSTMCell


class KerasGRU(AbstractLayer):
    """`tf.keras.layers.GRU`. The state is h; with `return_state` it returns (outputs, h).

    Args:
        units, activation, recurrent_activation, use_bias, reset_after, dtype, input_size: as in `KerasGRUCell`.
        kernel_initializer, recurrent_initializer, bias_initializer: as there.
        dropout, recurrent_dropout, return_sequences, return_state, go_backwards: as in `KerasLSTM`.
        stateful, unroll, time_major, implementation, name: as there.

    >>> KerasGRU(4)(torch.ones(2, 5, 3)).shape
    torch.Size([2, 4])
    """

    cell_type = KerasGRUCell


class Bidirectional(FromTensorflow):
    """A recurrent layer over sequences in both directions, as `tf.keras.layers.Bidirectional`.

    Args:
        merge_mode: how the outputs of both are combined; None for a tuple of both.
        backward_layer: the layer that goes backwards; a copy of the forward layer with its own weights if None.
        name: without effect.

    >>> encoder = Bidirectional(KerasGRU(4, return_sequences=True, return_state=True))
    >>> outputs, forward, backward = encoder(torch.ones(2, 5, 3))
    >>> outputs.shape, torch.equal(outputs[:, 0, 4:], backward)
    (torch.Size([2, 5, 8]), True)
    """

    def __init__(
        self,
        layer: KerasRNN,
        merge_mode: Literal["concat", "sum", "mul", "ave"] | None = "concat",
        *,
        backward_layer: KerasRNN | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        for each in (layer, *([] if backward_layer is None else [backward_layer])):
            if not isinstance(each, KerasRNN):
                raise UnsupportedError(f"layer must be a KerasLSTM, KerasGRU or KerasRNN; got {type(each).__name__}.")
        if merge_mode not in MERGES and merge_mode is not None:
            raise ConfigError(f"merge_mode={merge_mode!r} must be one of {', '.join(MERGES)}, or None.")
        if backward_layer is None:
            backward_layer = copy.deepcopy(layer)
            backward_layer.go_backwards = not layer.go_backwards
            _draw_again(backward_layer)
        if layer is backward_layer:
            raise UnsupportedError("layer and backward_layer are the same object: make two, or omit backward_layer.")
        if layer.go_backwards == backward_layer.go_backwards:
            raise UnsupportedError("Both layers go in the same direction: give go_backwards=True to backward_layer.")
        for option in ("return_sequences", "return_state"):
            if getattr(layer, option) != getattr(backward_layer, option):
                raise UnsupportedError(f"{option} differs between layer and backward_layer: give both the same.")
        self.forward_layer, self.backward_layer = layer, backward_layer
        self.merge_mode, self.name = merge_mode, name

    def array_names(self) -> list[str]:
        """Those of the forward layer, then of the backward layer."""
        parts = ("forward_layer", self.forward_layer), ("backward_layer", self.backward_layer)
        return [f"{role}/{name}" for role, part in parts for name in part.array_names()]

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        """For each layer the arrays in its scope, whose name begins with the direction."""

        def goes(direction: str, array: Array) -> bool:
            return any(part.startswith(f"{direction}_") for part in array.path[:-1])

        return taken(arrays, self.forward_layer, "forward_layer", lambda array: goes("forward", array)) | taken(
            arrays, self.backward_layer, "backward_layer", lambda array: goes("backward", array)
        )

    def forward(
        self,
        inputs: Float[Tensor, "B T F"],
        initial_state: Sequence[Any] | None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        training: bool | None = None,
    ) -> Any:
        """The combined outputs, in the order of the inputs; with `return_state` a tuple of them and the tensors of the
        last states of the forward and of the backward layer.

        Args:
            initial_state: the states of both in one list, such as [h, c, h, c] of LSTMs; zeros if None.
            mask: as in `KerasRNN`; sequences of outputs are 0 where it is False.
            training: as in `KerasRNN`.
        """
        first: list[Any] = [None, None]
        if initial_state is not None:
            states = list(initial_state)
            half = len(states) // 2
            if not half or len(states) % 2:
                raise ShapeError(
                    f"initial_state has {len(states)} entries: give those of the forward layer, then as many of the "
                    "backward layer."
                )
            first = [states[:half], states[half:]]
        layers = self.forward_layer, self.backward_layer
        forward, backward = (layer(inputs, state, mask, training) for layer, state in zip(layers, first, strict=True))
        states = []
        if self.forward_layer.return_state:
            (forward, *last_forward), (backward, *last_backward) = forward, backward
            states = [*last_forward, *last_backward]
        if self.forward_layer.return_sequences:
            forward, backward = (
                outputs.flip(1) if layer.go_backwards else outputs
                for outputs, layer in zip((forward, backward), layers, strict=True)
            )
            if mask is not None:
                padding = ~torch.as_tensor(mask, device=forward.device)[..., None]
                forward, backward = forward.masked_fill(padding, 0), backward.masked_fill(padding, 0)
        outputs = (forward, backward) if self.merge_mode is None else MERGES[self.merge_mode](forward, backward)
        if not states:
            return outputs
        return (*outputs, *states) if self.merge_mode is None else (outputs, *states)


MERGES: dict[str, Any] = {
    "concat": lambda forward, backward: torch.cat([forward, backward], -1),
    "sum": lambda forward, backward: forward + backward,
    "mul": lambda forward, backward: forward * backward,
    "ave": lambda forward, backward: (forward + backward) / 2,
}
"""Combinations of the outputs of both directions."""


def _draw_again(layer: nn.Module) -> None:
    """Draws the weights of a copy again, if they have values."""
    for part in layer.modules():
        if isinstance(part, DeferredModule) and part.built:
            with torch.no_grad():
                part.reset_parameters()  # type: ignore[operator]
