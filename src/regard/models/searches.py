"""By which steps a search goes: the table that `for_search` takes from and `explain` shows."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from regard.attention.contract import Tree
from regard.errors import UnsupportedError
from regard.layers import twin
from regard.models.fused import transformer_search
from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import StandIn, refuse_device, refuse_types
from regard.ops.linear import refuse_bytes
from regard.ops.linear.storage import stores_bytes


def refuse_packed(decoder: nn.Module, memory: Tree = None, rows: int = twin.MIN_ROWS) -> str | None:
    """Why a decoder's layers are called as they are, or None where weights are laid out once for all steps."""
    if (reason := twin.refuse(rows)) is not None:
        return reason
    if all(refuse_device("cpu", weight) or refuse_types(weight) for weight in decoder.parameters()):
        return "weights are packed on the CPU, in float32 and float64"
    return refuse_stored(decoder)


def refuse_stored(decoder: nn.Module) -> str | None:
    """Why a decoder's weights cannot be stored as a search wants them, or None."""
    return refuse_bytes(*decoder.parameters()) if stores_bytes() else None


def _refuse_own(decoder: Any, *inputs: Any) -> str | None:
    reason: str | None = refuse_stored(decoder) or decoder._ineligible_for_search(*inputs)
    return reason


def _cache(decoder: nn.Module, memory: Tree, rows: int) -> tuple[Any, Any]:
    cached = transformer_search.SearchTwin(decoder, memory, rows)
    return cached, cached.begin()


def _pack(decoder: nn.Module, memory: Tree, rows: int) -> tuple[nn.Module, Tree]:
    return twin.twin(decoder, rows), memory


def _call(decoder: nn.Module, memory: Tree, rows: int) -> tuple[nn.Module, Tree]:
    return decoder, memory


PACKED = (Implementation("packed", _pack, refuse_packed), Implementation("step", _call))
"""From decoder, memory and the number of rows to what takes the steps, and the memory for it."""
CACHED = (
    Implementation("cached", _cache, _refuse_own),
    *PACKED,
)
"""The same for Transformers with a source."""
_LANGUAGE = "regard.models.fused.language_search"
CACHED_LANGUAGE = (
    Implementation(
        "cached",
        loaded(_LANGUAGE, "take"),
        lambda model, *inputs: refuse_stored(model) or loaded(_LANGUAGE, "refuse")(model, *inputs),
    ),
    *PACKED,
)
"""The same for decoder-only Transformers."""
DESCRIPTIONS = {
    "cached": "in searches all layers are one call, and a cache of keys and values is never copied",
    "packed": "searches call the decoder's `step`, with weights packed once",
    "step": "searches call the decoder's `step`",
}


def take(paths: tuple[Implementation, ...], decoder: nn.Module, memory: Tree, rows: int) -> tuple[Any, Any]:
    """What takes the steps of a search of so many rows, and the memory for it.

    Raises:
        UnsupportedError: if weights shall be stored as bytes, and the path is `step`, which stores none.
    """
    path = choose(paths, decoder, memory, rows)
    if stores_bytes() and path is paths[-1]:
        reasons = (other.refuse(decoder, memory, rows) for other in paths[:-1])
        raise UnsupportedError(
            f"decoding.weights: int8 is for decoders whose weights are packed; {type(decoder).__name__} takes its own "
            f"steps: {', and '.join(dict.fromkeys(filter(None, reasons)))}."
        )
    taken: tuple[Any, Any] = path.function(decoder, memory, rows)
    return taken


def with_fast_steps(decoder: Any, memory: Tree, rows: int) -> tuple[Any, Any]:
    """A decoder's twin for searches of so many rows (`for_search`) and the memory for it, or both as they are.

    Raises:
        UnsupportedError: if weights shall be stored as bytes, and the decoder has no such twin.
    """
    for_search = getattr(type(decoder), "for_search", None)
    if for_search is None or "step" in getattr(decoder, "__dict__", {}):
        if stores_bytes():
            raise UnsupportedError(
                f"decoding.weights: int8 needs a decoder with `for_search`; {type(decoder).__name__} has its own steps."
            )
        return decoder, memory
    taken: tuple[Any, Any] = for_search(decoder, memory, rows)
    return taken


def explain(paths: tuple[Implementation, ...], decoder: nn.Module, rows: int, device: str) -> str:
    """Which of the paths a search of so many rows takes on a type of device, and why not those before it."""
    weight = next(decoder.parameters())
    if device == "cpu" and weight.device.type != device:
        decoder = copy.deepcopy(decoder).to(device)
    read = StandIn(torch.device(device), (rows, 1), weight.dtype)
    memory = SimpleNamespace(attention=SimpleNamespace(read=read))
    *fast, taken = paths
    reasons = []
    with torch.inference_mode():
        for path in fast:
            reason = path.refuse(decoder, memory, rows)
            if reason is None and device != "cpu":
                reason = "the faster path is for the CPU only"
            if reason is None:
                taken = path
                break
            reasons.append(reason)
    return ": ".join([DESCRIPTIONS[taken.name], *filter(None, [", and ".join(dict.fromkeys(reasons))])])
