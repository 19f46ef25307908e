"""A decoder from a cell and a sampler: `BasicDecoder`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError, UnsupportedError
from regard.interop.tfa.cells.contract import as_cell
from regard.interop.tfa.decoders.loop import BaseDecoder
from regard.interop.tfa.layers.deferred import tensors
from regard.interop.tfa.layers.dense import width_of
from regard.interop.tfa.layers.originals import FromTensorflow, Pool, parts_of, taken
from regard.interop.tfa.samplers.contract import Sampler
from regard.interop.tfa.samplers.contrib import Helper
from regard.interop.tfa.structure import flatten

OutputLayer = Callable[[Tensor], Tensor]


class BasicDecoderOutput(NamedTuple):
    """The outputs of a step of a `BasicDecoder`.

    Args:
        rnn_output: (B, N), of the output layer, or of the cell without one.
        sample_id: the sampler's sample of it.
    """

    rnn_output: Any
    sample_id: Any


class BasicDecoder(FromTensorflow, BaseDecoder):
    """Steps of a cell and an output layer, whose sampler chooses samples and the next inputs.

    The form of tensorflow-addons, `BasicDecoder(cell, sampler, output_layer)`, is called with inputs and
    `initial_state`. That of TensorFlow 1, `BasicDecoder(cell, helper, initial_state, output_layer)`, has both and is
    passed to `dynamic_decode`. A third argument is an output layer if it is callable, otherwise a state.

    Args:
        cell: an `RNNCell`, an `AttentionWrapper`, or one of torch's cells.
        sampler: a `Sampler`; by its name in TensorFlow 1, `helper`.
        output_layer: applied to the cell's output before sampling.
        initial_state: the cell's first state, in the form of TensorFlow 1.
        **kwargs: those of `BaseDecoder`.

    Raises:
        UnsupportedError: for an object that is no sampler or output layer.
        TypeError: for too many arguments, or an argument given twice.

    >>> from torch import nn
    >>> from regard.interop.tfa import TrainingSampler
    >>> cell, sampler = nn.GRUCell(3, 4), TrainingSampler()
    >>> decoder = BasicDecoder(cell, sampler, nn.Linear(4, 7))
    >>> inputs, state = torch.zeros(2, 5, 3), torch.zeros(2, 4)
    >>> outputs, state, lengths = decoder(inputs, initial_state=state, sequence_length=[5, 3])
    >>> outputs.rnn_output.shape, outputs.sample_id.shape, lengths
    (torch.Size([2, 5, 7]), torch.Size([2, 5]), tensor([5, 3]))
    """

    def __init__(
        self,
        cell: Any,
        sampler: Sampler | None = None,
        *layer_or_state: Any,
        helper: Sampler | None = None,
        initial_state: Any = None,
        output_layer: OutputLayer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if sampler is not None and helper is not None:
            raise UnsupportedError("sampler and helper are two names of one argument: give one.")
        sampler = helper if sampler is None else sampler
        if not callable(getattr(sampler, "next_inputs", None)):
            raise UnsupportedError(f"sampler must be a Sampler, or a Helper; got {type(sampler).__name__}.")
        if len(layer_or_state) == 1 and (layer_or_state[0] is None or callable(layer_or_state[0])):
            names: tuple[str, ...] = ("output_layer",)
        else:
            names = ("initial_state", "output_layer")
        if len(layer_or_state) > len(names):
            raise TypeError(
                "BasicDecoder takes cell, sampler, output_layer, or cell, helper, initial_state, output_layer; got "
                f"{2 + len(layer_or_state)} arguments. Give those of BaseDecoder by name."
            )
        for name, value in zip(names, layer_or_state):
            if value is None:
                continue
            if (initial_state if name == "initial_state" else output_layer) is not None:
                raise TypeError(f"BasicDecoder got {name} twice.")
            if name == "initial_state":
                initial_state = value
            else:
                output_layer = value
        if output_layer is not None and not callable(output_layer):
            raise UnsupportedError(
                f"output_layer must be a module or a function; got {type(output_layer).__name__}. The form of "
                "TensorFlow 1 is BasicDecoder(cell, helper, initial_state, output_layer)."
            )
        self.cell = as_cell(cell)
        self.sampler: Any = sampler
        self.output_layer = output_layer
        self._given_state = initial_state
        self._dtype: torch.dtype | None = None

    def array_names(self) -> list[str]:
        """Those of the cell and of the output layer."""
        parts = [("cell", self.cell), *([] if self.output_layer is None else [("output_layer", self.output_layer)])]
        return [f"{role}/{name}" for role, part in parts for name in parts_of(part, role).array_names()]

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        """The arrays in the scope of the output layer; the others are those of the cell."""
        state = {}
        if self.output_layer is not None:
            names = ("output_layer", getattr(self.output_layer, "name", ""))
            state = taken(
                arrays,
                self.output_layer,
                "output_layer",
                lambda array: array.has(*names) and not array.has("attention_wrapper"),
            )
        return state | taken(arrays, self.cell, "cell", lambda array: True)

    def initialize(self, inputs: Any = None, initial_state: Any = None, **kwargs: Any) -> tuple[Tensor, Any, Any]:
        """The first inputs, from the sampler.

        Args:
            inputs, **kwargs: of the sampler's `initialize`; a `Helper` needs none.
            initial_state: of the cell; that of the constructor if None.

        Raises:
            RegardError: without a state.
        """
        state = self._given_state if initial_state is None else initial_state
        if state is None:
            raise RegardError(
                "The decoder needs the cell's first state: decoder(inputs, initial_state=cell.get_initial_state(…))."
            )
        state = tensors(state)
        self._dtype = next((leaf.dtype for leaf in flatten(state) if isinstance(leaf, Tensor)), None)
        if isinstance(self.sampler, Helper) or (
            inputs is None and not kwargs and not isinstance(self.sampler, Sampler)
        ):
            finished, first = self.sampler.initialize()
        else:
            finished, first = self.sampler.initialize(inputs, **kwargs)
        return finished, first, state

    @property
    def batch_size(self) -> int:
        size: int = self.sampler.batch_size
        return size

    @property
    def output_size(self) -> BasicDecoderOutput:
        """(N,), and the shape of a sample."""
        return BasicDecoderOutput(
            torch.Size([width_of(self.output_layer, self.cell.output_size)]), self.sampler.sample_ids_shape
        )

    @property
    def output_dtype(self) -> BasicDecoderOutput:
        """That of the state, and that of samples."""
        return BasicDecoderOutput(self._dtype, self.sampler.sample_ids_dtype)

    def step(self, time: int, inputs: Any, state: Any, training: bool | None = None) -> tuple[Any, Any, Any, Tensor]:
        """A step of the cell.

        Args:
            time: its number, from 0.
            inputs, state: of the cell.
            training: without effect; `dynamic_decode` sets the modes of modules.
        """
        outputs, state = self.cell(inputs, state)
        if self.output_layer is not None:
            outputs = self.output_layer(outputs)
        sample_ids = self.sampler.sample(time=time, outputs=outputs, state=state)
        finished, following, state = self.sampler.next_inputs(
            time=time, outputs=outputs, state=state, sample_ids=sample_ids
        )
        return BasicDecoderOutput(outputs, sample_ids), state, following, finished
