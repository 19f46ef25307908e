"""Whether a fast path may read a module's weights instead of calling it, and the weights of modules that it may not."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from regard.layers import recorders
from regard.layers.linear import Linear
from regard.shapes import Float

_WEIGHTS = (Tensor, nn.Parameter, type(None))
ENTRY = "_regard_entry_point"
"""The attribute of functions that replace a method without changing its result (`regard.models.shard`)."""


def module_reason(module: Any, name: str, *kinds: type, reports: bool = False) -> str | None:
    """Why a module must be called, or None if its type and its weights determine its result.

    A fast path may read the weights of a module that is exactly of a known type, with ordinary parameters. It has to
    call wrappers around a layer (LoRA), subclasses, modules with hooks (such as those that compute a weight in every
    call: pruning, weight and spectral norm) or parametrisations, with quantised, sharded or simulated weights, and with
    methods that were replaced on the instance. Every fast path checks every module that it does not call; the modules
    inside it are not checked.

    Args:
        name: the module's, for the reason.
        kinds: the known types; any if empty.
        reports: whether the fast path reports the weights of attention in the module's place (`recorders`).
    """
    kind: type = nn.Linear if type(module) is Linear else type(module)
    if kinds and kind not in kinds:
        return f"the type of {name} is {kind.__name__}, not {' or '.join(known.__name__ for known in kinds)}"
    if (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or _has_any_global_hook()
    ):
        return f"{name} has hooks"
    if torch.compiler.is_compiling():
        return None
    if not reports and recorders.held(module):
        return f"the weights of {name} are recorded"
    methods = _methods(kind)
    for key, value in module.__dict__.items():
        if key in methods:
            return f"{key} of {name} is replaced"
        if isinstance(value, Tensor):
            return f"the {key} of {name} is not a parameter"
    for key, value in module._parameters.items():
        if type(value) not in _WEIGHTS:
            return f"the {key} of {name} is a {type(value).__name__}"
    return None


def overridden(module: nn.Module, base: type, *names: str) -> str | None:
    """The first of these methods of a base class that the module's class or the instance replaces; or None."""
    for name in names:
        if getattr(type(module), name) is not getattr(base, name):
            return name
        if torch.compiler.is_compiling():
            continue
        if name in module.__dict__ and not getattr(module.__dict__[name], ENTRY, False):
            return name
    return None


@cache
def _methods(kind: type) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name, None)))


def matrix_of(layer: Any, size: int, like: Tensor) -> Float[Tensor, "N K"]:
    """W of a map x ↦ W x: its weight, or its outputs for unit vectors if it must be called.

    Args:
        layer: an `nn.Linear` without bias, or a module in its place (an adapter, a sharded or quantised layer).
        size: K.
        like: type and device of unit vectors.
    """
    if module_reason(layer, "it", nn.Linear) is None:
        weight: Tensor = layer.weight
        return weight
    made: Tensor = layer(torch.eye(size, dtype=like.dtype, device=like.device))
    return made.t()


def filters_of(
    layer: Any, num_channels: int, num_groups: int, width: int | tuple[int, int], like: Tensor
) -> Float[Tensor, "F C *widths"]:
    """The filters of a convolution without bias: its weight, or its outputs for unit impulses if it must be called.

    Args:
        layer: an `nn.Conv1d` or `nn.Conv2d` that keeps the length, or a module in its place.
        num_channels: C, of a group.
        num_groups: the groups of filters.
        width: W, or (Y, X) of filters of a plane; odd.
        like: type and device of impulses.
    """
    if module_reason(layer, "it", nn.Conv1d, nn.Conv2d) is None:
        weight: Tensor = layer.weight
        return weight
    # Sequence c has an impulse at W // 2 in channel c of every group; a correlation gives the reversed filters there.
    widths = (width,) if isinstance(width, int) else width
    impulses = torch.zeros(num_channels, num_groups, num_channels, *widths, dtype=like.dtype, device=like.device)
    index = torch.arange(num_channels, device=like.device)
    middle = impulses.flatten(3)[..., math.prod(widths) // 2]
    middle[index, :, index] = 1
    made: Tensor = layer(impulses.flatten(1, 2))
    return made.flip(list(range(2, 2 + len(widths)))).transpose(0, 1)
