"""Products with a weight matrix, as torch's own library computes them."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import linear

__all__ = ["linear", "outer"]


def outer(left: Tensor, right: Tensor) -> Tensor:
    """leftᵀ right (N, K) of (M, N) and (M, K)."""
    return left.t() @ right
