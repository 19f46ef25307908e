"""How many parameters a model has, and the size at which it has about as many as wanted."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def count(model: nn.Module) -> int:
    """The numbers that are trained; a weight that two modules share counts once.

    >>> count(nn.Linear(3, 2))
    8
    """
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def size_for(make: Callable[[int], nn.Module], wanted: int, *, multiple: int = 1) -> int:
    """The multiple of `multiple` at which `make(size)` has the number of parameters that is nearest to `wanted`.

    Models are built on the meta device, without weights; their number of parameters must grow with the size.

    >>> size_for(lambda size: nn.Linear(size, size), 110)
    10
    """

    def parameters(index: int) -> int:
        with torch.device("meta"):
            return count(make(index * multiple))

    low, high = 1, 2
    while parameters(high) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parameters(middle) < wanted else (low, middle)
    return multiple * min((low, high), key=lambda index: abs(parameters(index) - wanted))
