"""Whether a fast way may compute from a module's weights what calling it would, and what weights it reads if not."""

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
"""The attribute of functions that stand in place of a method and do the same (`regard.models.shard`)."""


def module_reason(module: Any, name: str, *kinds: type, reports: bool = False) -> str | None:
    """Why a module has to be called, or None where its weights and its type say all that it does.

    A fast way reads weights. So it is right only for modules that are exactly of a known type, whose weights are
    parameters as they stand and into which nobody else has put anything: a wrapper around a layer (LoRA), a subclass,
    hooks (as those that compute a weight anew in every call: pruning, weight and spectral norm), parametrisations,
    quantised, sharded or simulated weights, and methods that were replaced on the instance all want the call. Every
    fast way asks here about every module that it does not call. The modules inside are not asked.

    Args:
        name: the module's, for the reason.
        kinds: the known types; any if none is given.
        reports: whether the fast way reports the weights of attention in the module's place (`recorders`).
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
        return f"hooks of {name} want to be called"
    if torch.compiler.is_compiling():
        return None
    if not reports and recorders.held(module):
        return f"the weights of {name} are recorded"
    methods = _methods(kind)
    for key, value in module.__dict__.items():
        if key in methods:
            return f"{name} has a {key} of its own"
        if isinstance(value, Tensor):
            return f"the {key} of {name} is no parameter"
    for key, value in module._parameters.items():
        if type(value) not in _WEIGHTS:
            return f"the {key} of {name} is a {type(value).__name__}"
    return None


def overridden(module: nn.Module, base: type, *names: str) -> str | None:
    """The first of these methods of a base class that a subclass, or the instance, has replaced; or None."""
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
    """W of a map x ↦ W x: its weight, or what it makes of unit vectors where it has to be called.

    Args:
        layer: an `nn.Linear` without bias, or what stands in its place (an adapter, a sharded or quantised layer).
        size: K.
        like: gives type and device of unit vectors.
    """
    if module_reason(layer, "it", nn.Linear) is None:
        weight: Tensor = layer.weight
        return weight
    made: Tensor = layer(torch.eye(size, dtype=like.dtype, device=like.device))
    return made.t()


def filters_of(
    layer: Any, num_channels: int, num_groups: int, width: int | tuple[int, int], like: Tensor
) -> Float[Tensor, "F C *widths"]:
    """The filters of a convolution without bias: its weight, or what it makes of unit impulses if it has to be called.

    Args:
        layer: an `nn.Conv1d` or `nn.Conv2d` that keeps the length, or what stands in its place.
        num_channels: C, of a group.
        num_groups: each has filters of its own.
        width: W, or (Y, X) of filters of a plane; odd.
        like: gives type and device of impulses.
    """
    if module_reason(layer, "it", nn.Conv1d, nn.Conv2d) is None:
        weight: Tensor = layer.weight
        return weight
    # Sequence c has an impulse at W // 2 in channel c of every group; a correlation shows its filters backwards there.
    widths = (width,) if isinstance(width, int) else width
    impulses = torch.zeros(num_channels, num_groups, num_channels, *widths, dtype=like.dtype, device=like.device)
    index = torch.arange(num_channels, device=like.device)
    middle = impulses.flatten(3)[..., math.prod(widths) // 2]
    middle[index, :, index] = 1
    made: Tensor = layer(impulses.flatten(1, 2))
    return made.flip(list(range(2, 2 + len(widths)))).transpose(0, 1)
