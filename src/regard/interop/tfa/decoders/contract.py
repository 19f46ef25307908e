"""What a decoder is: `Decoder`, whose inputs it has itself, and `BaseDecoder`, a module that is called with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn


class Decoder(ABC):
    """A decoder that `dynamic_decode` runs step by step, and that has its inputs itself.

    `finalize` is optional: without it outputs stay as they are.
    """

    @property
    def batch_size(self) -> int:
        """B."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """The shape of each tensor of the outputs of a step, without the batch; a structure of sizes."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        """Their types, in the structure of `output_size`."""
        raise NotImplementedError

    @abstractmethod
    def initialize(self, name: str | None = None) -> tuple[Tensor, Any, Any]:
        """Which items have finished before the first step, its inputs, and the state."""

    @abstractmethod
    def step(
        self, time: int, inputs: Any, state: Any, training: bool | None = None, name: str | None = None
    ) -> tuple[Any, Any, Any, Tensor]:
        """Outputs, the next state, the next inputs, and which items have finished with this step."""

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Tensor) -> tuple[Any, Any]:
        """Outputs and state as they are returned, from those of all steps, time-major."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether what has finished is what the last step says, and not what any step has said.

        For decoders that change the order of their items. Lengths are then those of the state's `lengths`, if it has
        them.
        """
        return False


class BaseDecoder(nn.Module):
    """A decoder that is called: `decoder(inputs, initial_state=…)` gives outputs, last state and lengths.

    Args:
        output_time_major, impute_finished, maximum_iterations: as in `dynamic_decode`.
        parallel_iterations, swap_memory: without effect; TensorFlow's loops had them.
        name: kept, without effect.
    """

    def __init__(
        self,
        output_time_major: bool = False,
        impute_finished: bool = False,
        maximum_iterations: int | Tensor | None = None,
        parallel_iterations: int = 32,
        swap_memory: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.output_time_major, self.impute_finished = output_time_major, impute_finished
        self.maximum_iterations = maximum_iterations
        self.parallel_iterations, self.swap_memory, self.name = parallel_iterations, swap_memory, name

    def forward(
        self, inputs: Any = None, initial_state: Any = None, training: bool | None = None, **kwargs: Any
    ) -> tuple[Any, Any, Tensor]:
        """Decodes by `dynamic_decode`.

        Args:
            inputs, initial_state: for `initialize`.
            training: as in `dynamic_decode`.
            **kwargs: also for `initialize`, such as `sequence_length`, or `start_tokens` and `end_token`.
        """
        from regard.interop.tfa.decoders.loop import dynamic_decode

        return dynamic_decode(
            self,
            output_time_major=self.output_time_major,
            impute_finished=self.impute_finished,
            maximum_iterations=self.maximum_iterations,
            training=training,
            decoder_init_input=inputs,
            decoder_init_kwargs={**kwargs, "initial_state": initial_state},
        )

    @property
    def batch_size(self) -> int:
        """B."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """As in `Decoder`."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        """As in `Decoder`."""
        raise NotImplementedError

    def initialize(self, inputs: Any, initial_state: Any = None, **kwargs: Any) -> tuple[Tensor, Any, Any]:
        """As in `Decoder`, from what the decoder was called with."""
        raise NotImplementedError

    def step(self, time: int, inputs: Any, state: Any, training: bool | None = None) -> tuple[Any, Any, Any, Tensor]:
        """As in `Decoder`."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Tensor) -> tuple[Any, Any]:
        """As in `Decoder`."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """As in `Decoder`."""
        return False
