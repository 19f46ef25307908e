"""A linear map by the fastest library."""

from __future__ import annotations

from torch import Tensor, nn

from regard import ops
from regard.shapes import Float


class Linear(nn.Linear):
    """x Wᵀ + b: `nn.Linear`, with the same weights by the same names, whose products are `regard.ops.linear`.

    >>> import torch
    >>> Linear(3, 2)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """

    def forward(self, x: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows N"]:
        """As above."""
        return ops.linear(x, self.weight, self.bias)
