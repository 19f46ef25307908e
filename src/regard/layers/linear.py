"""Linear maps with fast implementations."""

from __future__ import annotations

from torch import Tensor, nn

from regard import ops
from regard.shapes import Float


class Linear(nn.Linear):
    """x Wᵀ + b: `nn.Linear` with products by `regard.ops.linear`; the weights and their names are the same.

    torch's quantisation replaces linear maps of exactly the type `nn.Linear`. To quantise a model, change their class
    first::

        for module in model.modules():
            if type(module) is Linear:
                module.__class__ = nn.Linear
        model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})

    >>> import torch
    >>> Linear(3, 2)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """

    def forward(self, x: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows N"]:
        return ops.linear(x, self.weight, self.bias)
