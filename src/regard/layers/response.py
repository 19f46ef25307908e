"""The matrix of a linear layer and the filters of a convolution, also where they are not the layer's own weight."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.eligibility import ineligible
from regard.shapes import Float


def matrix(layer: Any, size: int, like: Tensor) -> Float[Tensor, "N K"]:
    """W of a map x ↦ W x: its weight, or what it makes of unit vectors where it has to be called.

    Args:
        layer: an `nn.Linear` without bias, or what stands in its place (an adapter, a sharded or quantised layer).
        size: K.
        like: gives type and device of unit vectors.
    """
    if ineligible(layer, "it", nn.Linear) is None:
        weight: Tensor = layer.weight
        return weight
    made: Tensor = layer(torch.eye(size, dtype=like.dtype, device=like.device))
    return made.t()


def filters(
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
    if ineligible(layer, "it", nn.Conv1d, nn.Conv2d) is None:
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
