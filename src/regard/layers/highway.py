"""Highway layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers.linear import Linear
from regard.shapes import Float


class Highway(nn.Module):
    """g ⊙ relu(W x + b) + (1 - g) ⊙ x,  g = σ(W_g x + b_g).

    Args:
        size: D.
        gate_bias: b_g at first; below 0, so that a new layer hands on its input.

    Source: Srivastava, Greff & Schmidhuber 2015 (arXiv 1505.00387), section 2.

    >>> Highway(4)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, size: int, *, gate_bias: float = -1.0) -> None:
        super().__init__()
        self.gate_bias = gate_bias
        self.transform = Linear(size, size)
        self.gate = Linear(size, size)
        nn.init.zeros_(self.transform.bias)
        nn.init.constant_(self.gate.bias, gate_bias)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """As above."""
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x
