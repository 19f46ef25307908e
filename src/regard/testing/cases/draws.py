"""Numbers for cases, the same ones each time."""

from __future__ import annotations

import torch
from torch import Tensor


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def probabilities(*shape: int, seed: int = 0) -> Tensor:
    """Numbers between 0 and 1."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ids(*shape: int) -> Tensor:
    """Ids below 7."""
    return torch.randint(0, 7, shape, generator=torch.Generator().manual_seed(0))
