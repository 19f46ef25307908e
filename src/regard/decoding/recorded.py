"""Which searches are recorded on a GPU, a step at a time, and the recordings of each decoder."""

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
from regard.config.search import Search
from regard.layers import recorders
from regard.models.transformer_language_model import CausalCache
from regard.models.transformer_layers import LayerState
from regard.ops.recording import Capture, Recordings, graphs
from regard.shapes import Bool, Int

EVERY = 8
"""After so many recorded steps it is read which sentences have ended."""
ROOMS = ("regard.attention.", "regard.layers.", "regard.models.", "regard.tasks.", "torch.nn.modules.")
"""Whose modules do nothing but what their tensors say."""
ROOM = 16
"""The room for steps is a multiple of it."""
TreeT = TypeVar("TreeT")
_THREAD = local()


def capture_for(device: torch.device) -> Callable[[], Capture] | None:
    """What records on a device, or None."""
    return graphs if device.type == "cuda" else None


def recordings_of(decoder: Any, like: Tensor) -> tuple[Recordings, Hashable] | None:
    """The recordings of a decoder's searches in this thread, and what tells its weights; None if it is not recorded.

    A recording has the addresses of the weights, and all that Python does only once. So nothing is recorded of modules
    that are not regard's or torch's, that hooks watch, that are in training, or whose attention is recorded.
    """
    if (capture := capture_for(like.device)) is None or unsupported_reason(decoder) is not None:
        return None
    kept: WeakKeyDictionary[Any, Recordings] = _THREAD.__dict__.setdefault("recordings", WeakKeyDictionary())
    if (found := kept.get(decoder)) is None:
        found = kept[decoder] = Recordings(capture())
    kind = like.device.type
    cast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    return found, (cast, *(x.data_ptr() for x in (*decoder.parameters(), *decoder.buffers())))


def constant_of(options: Search, *parts: object) -> Hashable:
    """What the steps of a search depend on beside its tensors, or None if a part may be anything."""
    is_known = all(type(part).__module__.startswith("regard.") for part in parts)
    return (options, *parts) if is_known else None


def called(recordings: Recordings, form: Hashable, inputs: Any, function: Callable[[Any], Any]) -> Any:
    """`Recordings.call` for inputs whose shapes belong to the form; warns once where a step cannot be recorded."""
    num_failures, form = len(recordings.failures), (form, tuple((x.shape, x.dtype) for x in tree.leaves(inputs)))
    outputs = recordings.call(form, inputs, function)
    if len(recordings.failures) > num_failures:
        warnings.warn(f"Steps are not recorded: {recordings.failures[form]}.", RuntimeWarning, stacklevel=2)
    return outputs


def with_room(state: TreeT, steps: int) -> TreeT:
    """A state whose memories of the steps so far have room for so many, so that its shapes stay the same."""
    count = -(-steps // ROOM) * ROOM

    def widened(node: Any) -> Any:
        if isinstance(node, CausalCache) and node.inputs is not None:
            return node  # it keeps the last tokens only
        return replace(node, memory=tree.change(node.memory, Memory, partial(memory.with_room, count=count)))

    return tree.change(state, (LayerState, CausalCache), widened)


def widths(state: Any) -> Hashable:
    """The sizes of the leaves of a state, but for their rows."""
    return tuple(x.shape[1:] for x in tree.leaves(state))


def looks(step: int, longest: int, *, is_recorded: bool) -> bool:
    """Whether to ask after a step what has ended, where the longest output has so many steps."""
    return not is_recorded or step % EVERY == 0 or step >= longest


def staying(leaving: Bool[Tensor, " B"], *, is_recorded: bool) -> Int[Tensor, " C"] | None:
    """The places of what goes on, some of which is over where steps are recorded: half as many rows each time.

    So the numbers of rows, of which each has recordings of its own, are few. None if all rows stay.
    """
    going = (~leaving).nonzero()[:, 0]
    if not is_recorded or not len(going):
        return going
    count = len(leaving)
    while (count + 1) // 2 >= len(going) and count > 1:
        count = (count + 1) // 2
    return None if count == len(leaving) else leaving.int().argsort(stable=True)[:count]


def unsupported_reason(decoder: Any) -> str | None:
    """Why the steps of a decoder are not recorded on a GPU, or None."""
    if not isinstance(decoder, nn.Module):
        return f"{type(decoder).__name__} is no module"
    if decoder.training:
        return "the decoder is in training mode"
    if recorders.active():
        return "attention is recorded"
    for name, module in decoder.named_modules():
        name, kind = name or "the decoder", type(module)
        if not kind.__module__.startswith(ROOMS):
            return f"{name} is a {kind.__name__}, of which nobody knows what it does beside tensors"
        if module._forward_hooks or module._forward_pre_hooks:
            return f"hooks of {name} want to be called"
        for key, value in vars(module).items():
            if not key.startswith("_") and _may_do_anything(value):
                return f"nobody knows what the {key} of {name} does beside tensors"
    return None


def _may_do_anything(value: Any) -> bool:
    """Whether a value is or has a function, or a decoder, that is not regard's or torch's."""
    if isinstance(value, tuple | list | dict):
        return any(map(_may_do_anything, value.values() if isinstance(value, dict) else value))
    if isinstance(value, partial):
        return _may_do_anything(value.func)
    if not callable(value) and not hasattr(value, "step"):
        return False
    room = getattr(value, "__module__", None) or type(value).__module__
    return not room.startswith(("regard.", "torch", "builtins"))
