"""The loop of a decoder's steps: `dynamic_decode`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, ShapeError, UnsupportedError
from regard.interop.tfa.arrays import TensorArray
from regard.interop.tfa.decoders.contract import BaseDecoder, Decoder
from regard.interop.tfa.structure import map_structure


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

    An item that has finished goes on with the others. Its length is the number of steps up to the one with which it
    finished, which counts; an item that had finished before the first step has 0. `impute_finished` looks at the flags
    before a step, so the step that finishes is kept.

    Args:
        decoder: has `initialize`, `step` and perhaps `finalize`.
        output_time_major: whether outputs are (T, B, …) and not (B, T, …).
        impute_finished: whether outputs of items that had finished before are zeros and their states stay as they were,
            so that the last state is that of the last real step, and no gradient comes from later ones. Scalars and
            arrays of steps in the state pass.
        maximum_iterations: the greatest number of steps, above 0; any if None.
        training: whether dropout draws, for this call; as the modules are set if None.
        decoder_init_input, decoder_init_kwargs: what `BaseDecoder.initialize` is called with.
        parallel_iterations, swap_memory, scope, enable_tflite_convertible: without effect; TensorFlow's loops, names
            and exports had them.

    Returns:
        Outputs of the steps that were taken, the last state, and lengths (B,), or (B, K) of beams.

    Raises:
        ShapeError: for a `maximum_iterations` that is no scalar.
        ConfigError: for one below 1, or an `output_time_major` that is neither True nor False.
        UnsupportedError: for a decoder that is none, for `impute_finished` with one that orders its items anew, and for
            `training` with one that has no modes.
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
                f"impute_finished does not go with {type(decoder).__name__}, which orders its items anew at each step, "
                "so there is no state to keep at a place. Leave it out; what has finished there does not change."
            )
        options: dict[str, Any] = {"training": training} if _takes_training(decoder) else {}
        lengths = torch.zeros_like(finished, dtype=torch.long)
        steps: list[Any] = []
        while (limit is None or len(steps) < limit) and not bool(finished.all()):
            outputs, new_state, inputs, now = decoder.step(len(steps), inputs, state, **options)
            own = getattr(new_state, "lengths", None) if tracks else None
            lengths = own if own is not None else lengths.masked_fill(~finished, len(steps) + 1)
            if impute_finished and bool(finished.any()):
                outputs = map_structure(partial(_zeroed, finished), outputs)
                new_state = map_structure(partial(_kept, finished), new_state, state)
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
    """Puts the modules of a decoder in a mode, and afterwards back."""
    if training is None:
        yield
        return
    modules = list(decoder.modules()) if isinstance(decoder, nn.Module) else []
    if not modules and not _takes_training(decoder):
        raise UnsupportedError(
            f"training is {training}, but {type(decoder).__name__} is no module and its step has no argument of that "
            "name; leave it out, and call train() or eval() of its modules."
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


def _like(finished: Tensor, values: Tensor) -> Tensor:
    """(B, 1, …), to choose rows of values with."""
    return finished.view(*finished.shape, *[1] * (values.dim() - finished.dim()))


def _zeroed(finished: Tensor, values: Tensor) -> Tensor:
    """Zeros for what has finished."""
    return values.masked_fill(_like(finished, values), 0)


def _kept(finished: Tensor, new: Any, old: Any) -> Any:
    """The old state of what has finished; scalars and arrays pass."""
    if isinstance(new, TensorArray) or not isinstance(new, Tensor) or new.dim() == 0:
        return new
    return torch.where(_like(finished, new), old, new)


def _finalizes(decoder: Decoder | BaseDecoder) -> bool:
    return type(decoder).finalize not in (Decoder.finalize, BaseDecoder.finalize)


def _stacked(decoder: Decoder | BaseDecoder, steps: list[Any], finished: Tensor, axis: int) -> Any:
    """The outputs of all steps, along an axis of steps; without any step, of the sizes that the decoder says."""
    if steps:
        return map_structure(lambda *each: torch.stack(each, axis), steps[0], *steps[1:])

    def empty(dtype: torch.dtype, size: Any) -> Tensor:
        shape = [decoder.batch_size, *torch.Size(size)]
        shape.insert(axis, 0)
        return torch.zeros(shape, dtype=dtype, device=finished.device)

    return map_structure(empty, decoder.output_dtype, decoder.output_size)


def _batch_first(values: Any) -> Any:
    return values.transpose(0, 1).contiguous() if isinstance(values, Tensor) and values.dim() >= 2 else values
