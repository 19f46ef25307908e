"""Products with a weight matrix by the fastest library at hand; without autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.ops.choose import Implementation
from regard.ops.linear import onednn, reference
from regard.shapes import Float

LINEAR = (Implementation("onednn", onednn.linear, onednn.refuse), Implementation("reference", reference.linear))


def linear(
    x: Float[Tensor, "*rows K"], weight: Float[Tensor, "N K"], bias: Float[Tensor, " N"] | None = None
) -> Float[Tensor, "*rows N"]:
    """x Wᵀ + b.

    >>> linear(torch.ones(2, 3), torch.ones(1, 3))
    tensor([[3.],
            [3.]])
    """
    if onednn.refuse(x, weight, bias) is None:
        return onednn.linear(x, weight, bias)
    return reference.linear(x, weight, bias)


class Product:
    """x Wᵀ for many x of as many rows; without autograd.

    Args:
        weight: (N, K). One that is transposed is taken as it stands: to pack it would cost more than dozens of products
            gain.
        rows: of x.
    """

    def __init__(self, weight: Tensor, rows: int) -> None:
        self.weight = weight.detach()
        with torch.no_grad():
            self.packed = onednn.refuse(weight.new_empty(rows, weight.shape[1]), self.weight) is None
        if self.packed and self.weight.is_contiguous():
            self.weight = onednn.pack(self.weight, rows)

    def __call__(
        self, x: Float[Tensor, "*rows K"], bias: Float[Tensor, " N"] | None = None
    ) -> Float[Tensor, "*rows N"]:
        """x Wᵀ + b."""
        return (onednn.linear if self.packed else reference.linear)(x, self.weight, bias)
