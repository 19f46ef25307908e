"""Recorded steps of searches on a GPU: which decoders are eligible, and the recordings of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from threading import local
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention import memory
from regard.attention.contract import Memory
from regard.layers import recorders
from regard.models.transformer_language_model import CausalCache
from regard.models.transformer_layers import LayerState
from regard.ops.recording import Capture, Recordings, graphs
from regard.shapes import Bool, Int

EVERY = 8
"""The number of recorded steps after which the host reads which sentences are over."""
ROOMS = ("regard.attention.", "regard.layers.", "regard.models.", "regard.tasks.", "torch.nn.modules.")
"""The packages whose modules depend on tensors only."""
ROOM = 16
"""The memory of steps is enlarged to a multiple of it."""
TreeT = TypeVar("TreeT")
_THREAD = local()


def capture_for(device: torch.device) -> Callable[[], Capture] | None:
    """The capture that records on a device, or None."""
    return graphs if device.type == "cuda" else None


def recordings_of(decoder: Any, like: Tensor) -> tuple[Recordings, Hashable] | None:
    """The recordings of a decoder's searches in this thread, and a key of its weights; None if it cannot be recorded.

    A recording contains the addresses of the weights, and what Python computed once. So modules from outside regard and
    torch, with hooks, in training mode, or whose attention is recorded are not eligible.
    """
    if (capture := capture_for(like.device)) is None or unsupported_reason(decoder) is not None:
        return None
    by_decoder: WeakKeyDictionary[Any, Recordings] = _THREAD.__dict__.setdefault("recordings", WeakKeyDictionary())
    if (recordings := by_decoder.get(decoder)) is None:
        recordings = by_decoder[decoder] = Recordings(capture())
    kind = like.device.type
    cast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    return recordings, (cast, *(x.data_ptr() for x in (*decoder.parameters(), *decoder.buffers())))


def called(recordings: Recordings, form: Hashable, inputs: Any, function: Callable[[Any], Any]) -> Any:
    """`Recordings.call` with the shapes of the inputs in the form; warns once if a step cannot be recorded."""
    num_failures, form = len(recordings.failures), (form, tuple((x.shape, x.dtype) for x in tree.leaves(inputs)))
    outputs = recordings.call(form, inputs, function)
    if len(recordings.failures) > num_failures:
        warnings.warn(f"Steps are not recorded: {recordings.failures[form]}.", RuntimeWarning, stacklevel=2)
    return outputs


def with_room(state: TreeT, steps: int) -> TreeT:
    """A state whose memories of steps have room for that many, so that its shapes stay the same."""
    count = -(-steps // ROOM) * ROOM

    def widened(node: Any) -> Any:
        if isinstance(node, CausalCache) and node.inputs is not None:
            return node  # of fixed size: the last tokens
        return replace(node, memory=tree.change(node.memory, Memory, partial(memory.with_room, count=count)))

    return tree.change(state, (LayerState, CausalCache), widened)


def widths(state: Any) -> Hashable:
    """The sizes of the leaves of a state, without their rows."""
    return tuple(x.shape[1:] for x in tree.leaves(state))


def is_due(step: int, longest: int, *, is_recorded: bool) -> bool:
    """Whether the host reads after this step which rows are over; `longest` is the largest number of steps."""
    return not is_recorded or step % EVERY == 0 or step >= longest


def staying(leaving: Bool[Tensor, " B"], *, is_recorded: bool) -> Int[Tensor, " C"] | None:
    """The places of the rows that stay; None if all do.

    Each number of rows needs a recording. So recorded rows are only halved in number, and some that are over stay.
    """
    unfinished = (~leaving).nonzero()[:, 0]
    if not is_recorded or not len(unfinished):
        return unfinished
    count = len(leaving)
    while (count + 1) // 2 >= len(unfinished) and count > 1:
        count = (count + 1) // 2
    return None if count == len(leaving) else leaving.int().argsort(stable=True)[:count]


def unsupported_reason(decoder: Any) -> str | None:
    """Why the steps of a decoder are not recorded on a GPU, or None."""
    if not isinstance(decoder, nn.Module):
        return f"{type(decoder).__name__} is no nn.Module"
    if decoder.training:
        return "the decoder is in training mode"
    if recorders.active():
        return "attention is recorded"
    for name, module in decoder.named_modules():
        name, kind = name or "the decoder", type(module)
        if not kind.__module__.startswith(ROOMS):
            return f"{name} is a {kind.__name__}, not a module of regard or torch, and may depend on more than tensors"
        if module._forward_hooks or module._forward_pre_hooks:
            return f"{name} has forward hooks"
        for key, value in vars(module).items():
            if not key.startswith("_") and _is_foreign(value):
                return f"{name}.{key} is not code of regard or torch, and may depend on more than tensors"
    return None


def _is_foreign(value: Any) -> bool:
    """Whether a value is or contains a function or a decoder from outside regard and torch."""
    if isinstance(value, tuple | list | dict):
        return any(map(_is_foreign, value.values() if isinstance(value, dict) else value))
    if isinstance(value, partial):
        return _is_foreign(value.func)
    if not callable(value) and not hasattr(value, "step"):
        return False
    room = getattr(value, "__module__", None) or type(value).__module__
    return not room.startswith(("regard.", "torch", "builtins"))
