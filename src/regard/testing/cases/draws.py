"""Random numbers for cases, the same each time, on torch's default device."""

from __future__ import annotations

import torch
from torch import Tensor


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers."""
    return _placed(torch.randn(*shape, generator=_seeded(seed), dtype=torch.float64, device="cpu"))


def probabilities(*shape: int, seed: int = 0) -> Tensor:
    """Numbers between 0 and 1."""
    return _placed(torch.rand(*shape, generator=_seeded(seed), dtype=torch.float64, device="cpu"))


def ids(*shape: int) -> Tensor:
    """Ids below 7."""
    return _placed(torch.randint(0, 7, shape, generator=_seeded(0), device="cpu"))


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator("cpu").manual_seed(seed)


def _placed(x: Tensor) -> Tensor:
    return x.to(torch.get_default_device())
