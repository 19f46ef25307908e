"""The weights of an original's layer, as its arrays by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import DataError


def tensors_of(weights: Mapping[str, Any], *names: str, layer: object) -> list[Tensor]:
    """The arrays of these names, as tensors, in this order.

    Args:
        weights: tensors, or arrays of NumPy.
        names: all that the layer has.
        layer: whose weights they are, for the error.

    Raises:
        DataError: for arrays that are missing or left over.

    >>> tensors_of({"bias": [1.0], "kernel": [[2.0]]}, "kernel", "bias", layer=None)
    [tensor([[2.]]), tensor([1.])]
    """
    missing = [name for name in names if name not in weights]
    others = [name for name in weights if name not in names]
    if missing or others:
        raise DataError(
            f"The arrays of a {type(layer).__name__} are {', '.join(names)}.\n"
            f"  missing: {', '.join(missing) or 'none'}\n  others: {', '.join(others) or 'none'}"
        )
    return [torch.as_tensor(weights[name]) for name in names]
