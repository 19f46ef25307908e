"""Decoders, and the loop of their steps: `Decoder`, `BaseDecoder` and `dynamic_decode`."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, ShapeError, UnsupportedError
from regard.interop.tfa.structure import carry, cleared, map_structure


class AbstractDecoder:
    """A decoder that `dynamic_decode` runs step by step. `finalize` is optional: without it outputs stay unchanged."""

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

    def step(self, time: int, inputs: Any, state: Any, training: bool | None = None) -> tuple[Any, Any, Any, Tensor]:
        """Outputs, the next state, the next inputs, and the items that finish with this step."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Tensor) -> tuple[Any, Any]:
        """The returned outputs and state, from the time-major outputs of all steps."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether the flags of the last step are those of all items; otherwise an item stays finished.

        For decoders that reorder their items. Lengths are then the state's `lengths`, if it has them.
        """
        return False


class Decoder(AbstractDecoder, ABC):
    """A decoder that has its own inputs."""

    @abstractmethod
    def initialize(self, name: str | None = None) -> tuple[Tensor, Any, Any]:
        """Which items have finished before the first step, its inputs, and the state."""

    @abstractmethod
    def step(
        self, time: int, inputs: Any, state: Any, training: bool | None = None, name: str | None = None
    ) -> tuple[Any, Any, Any, Tensor]:
        """As in `AbstractDecoder`."""


class BaseDecoder(nn.Module, AbstractDecoder):
    """A decoder that is called: `decoder(inputs, initial_state=…)` returns outputs, last state and lengths.

    Args:
        output_time_major, impute_finished, maximum_iterations: as in `dynamic_decode`.
        parallel_iterations, swap_memory: without effect; TensorFlow's loops had them.
        name: without effect.
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
        return dynamic_decode(
            self,
            output_time_major=self.output_time_major,
            impute_finished=self.impute_finished,
            maximum_iterations=self.maximum_iterations,
            training=training,
            decoder_init_input=inputs,
            decoder_init_kwargs={**kwargs, "initial_state": initial_state},
        )

    def initialize(self, inputs: Any, initial_state: Any = None, **kwargs: Any) -> tuple[Tensor, Any, Any]:
        """As in `Decoder`, from the arguments of the call."""
        raise NotImplementedError


def dynamic_decode(
    decoder: Decoder | BaseDecoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: int | Tensor | None = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    training: bool | None = None,
    scope: str | None = None,
    enable_tflite_convertible: bool = False,
    *,
    decoder_init_input: Any = None,
    decoder_init_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Any, Any, Tensor]:
    """Runs a decoder until every item has finished, or for `maximum_iterations` steps.

    Finished items continue with the others. An item's length is the number of steps up to and including the one that
    finished it; 0 if it had finished before the first step. `impute_finished` uses the flags before a step, so the
    finishing step is kept.

    Args:
        decoder: with `initialize`, `step` and optionally `finalize`.
        output_time_major: whether outputs are (T, B, …) instead of (B, T, …).
        impute_finished: whether outputs of items that had finished before are zeros and their states are not updated,
            so the last state is that of the last real step, and later steps have no gradient. Scalars and tensor arrays
            in the state are updated.
        maximum_iterations: the greatest number of steps, above 0; any if None.
        training: whether dropout is active in this call; the mode of the modules if None.
        decoder_init_input, decoder_init_kwargs: the arguments of `BaseDecoder.initialize`.
        parallel_iterations, swap_memory, scope, enable_tflite_convertible: without effect; TensorFlow's loops, names
            and exports had them.

    Returns:
        Outputs of the steps that were taken, the last state, and lengths (B,), or (B, K) of beams.

    Raises:
        ShapeError: for a `maximum_iterations` that is no scalar.
        ConfigError: for one below 1, or an `output_time_major` that is neither True nor False.
        UnsupportedError: for an object that is no decoder, for `impute_finished` with one that reorders its items, and
            for `training` with one that has no modes.
    """
    if not (hasattr(decoder, "initialize") and hasattr(decoder, "step")):
        raise UnsupportedError(
            f"dynamic_decode runs a Decoder, as BasicDecoder(cell, sampler); got {type(decoder).__name__}."
        )
    if not isinstance(output_time_major, bool):
        raise ConfigError(
            f"output_time_major is {output_time_major!r}; it is True or False. Give a number of steps by name, as "
            "maximum_iterations."
        )
    limit = _limit(maximum_iterations)
    with _mode(decoder, training):
        if isinstance(decoder, Decoder):
            finished, inputs, state = decoder.initialize()
        else:
            finished, inputs, state = decoder.initialize(decoder_init_input, **(decoder_init_kwargs or {}))
        tracks = decoder.tracks_own_finished
        if impute_finished and tracks:
            raise UnsupportedError(
                f"impute_finished is not supported with {type(decoder).__name__}, which reorders its items. Leave it "
                "out; its finished items do not change."
            )
        options: dict[str, Any] = {"training": training} if _takes_training(decoder) else {}
        lengths = torch.zeros_like(finished, dtype=torch.long)
        steps: list[Any] = []
        while (limit is None or len(steps) < limit) and not bool(finished.all()):
            outputs, new_state, inputs, now = decoder.step(len(steps), inputs, state, **options)
            own = getattr(new_state, "lengths", None) if tracks else None
            lengths = own if own is not None else lengths.masked_fill(~finished, len(steps) + 1)
            if impute_finished and bool(finished.any()):
                outputs = map_structure(partial(cleared, over=finished), outputs)
                new_state = carry(finished, state, new_state)
            state, finished = new_state, now if tracks else now | finished
            steps.append(outputs)
        final = _stacked(decoder, steps, finished, 0 if _finalizes(decoder) or output_time_major else 1)
        if _finalizes(decoder):
            with suppress(NotImplementedError):
                final, state = decoder.finalize(final, state, lengths)
            if not output_time_major:
                final = map_structure(_batch_first, final)
    return final, state, lengths


def _limit(maximum_iterations: int | Tensor | None) -> int | None:
    if maximum_iterations is None:
        return None
    if isinstance(maximum_iterations, Tensor) and maximum_iterations.dim() != 0:
        raise ShapeError(f"maximum_iterations must be a scalar; got {tuple(maximum_iterations.shape)}.")
    limit = int(maximum_iterations)
    if limit < 1:
        raise ConfigError(f"maximum_iterations is {limit}; give a number of steps above 0.")
    return limit


@contextmanager
def _mode(decoder: Decoder | BaseDecoder, training: bool | None) -> Iterator[None]:
    """Sets the mode of the modules of a decoder, and restores it afterwards."""
    if training is None:
        yield
        return
    modules = list(decoder.modules()) if isinstance(decoder, nn.Module) else []
    if not modules and not _takes_training(decoder):
        raise UnsupportedError(
            f"training is {training}, but {type(decoder).__name__} is no module and its step has no argument training; "
            "leave it out, and call train() or eval() of its modules."
        )
    before = [module.training for module in modules]
    try:
        for module in modules:
            module.training = training
        yield
    finally:
        for module, mode in zip(modules, before, strict=True):
            module.training = mode


def _takes_training(decoder: Decoder | BaseDecoder) -> bool:
    parameters = inspect.signature(decoder.step).parameters.values()
    return any(p.name == "training" or p.kind is p.VAR_KEYWORD for p in parameters)


def _finalizes(decoder: Decoder | BaseDecoder) -> bool:
    return type(decoder).finalize is not AbstractDecoder.finalize


def _stacked(decoder: Decoder | BaseDecoder, steps: list[Any], finished: Tensor, axis: int) -> Any:
    """The outputs of all steps, stacked along an axis; without a step, empty tensors of the decoder's sizes."""
    if steps:
        return map_structure(lambda *each: torch.stack(each, axis), steps[0], *steps[1:])

    def empty(dtype: torch.dtype, size: Any) -> Tensor:
        shape = [decoder.batch_size, *torch.Size(size)]
        shape.insert(axis, 0)
        return torch.zeros(shape, dtype=dtype, device=finished.device)

    return map_structure(empty, decoder.output_dtype, decoder.output_size)


def _batch_first(values: Any) -> Any:
    return values.transpose(0, 1).contiguous() if isinstance(values, Tensor) and values.dim() >= 2 else values
