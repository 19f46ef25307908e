"""y_t = x_t Wᵀ + b in every step of a loop (`ops.over_steps`); the gradients of W and b are those of one product.

grad_x_t = grad_y_t W,  grad_W = Σ_t grad_y_tᵀ x_t,  grad_b = Σ_t Σ rows of grad_y_t
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.errors import UnsupportedError
from regard.ops import over_steps
from regard.ops.choose import loaded
from regard.ops.eligibility import (
    FLOATS,
    refuse_autocast,
    refuse_device,
    refuse_kernels,
    refuse_numba,
    refuse_types,
)
from regard.ops.linear import onednn, reference
from regard.ops.precision import without_autocast

KERNELS = "regard.ops.linear.numba"


class PackedProduct:
    """x Wᵀ + b with a weight that is laid out once, at the first product that is large enough; without autograd.

    For a single row it is a product with a vector, as fast as the weight can be read, and nothing is laid out.

    Args:
        weight: (N, K).
        as_bytes: store the weight as bytes.
        bfloat16: as in `ops.linear`.

    Raises:
        UnsupportedError: if there are no kernels for bytes.
    """

    def __init__(self, weight: Tensor, *, as_bytes: bool = False, bfloat16: bool = False) -> None:
        self.weight = weight.detach().bfloat16() if bfloat16 else weight.detach()
        self._bfloat16 = bfloat16
        self._of_bytes = byte_product(self.weight) if as_bytes else None
        self._packed: list[Tensor] = []

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x Wᵀ + b."""
        return rounded(self._multiply, x, bias) if self._bfloat16 else self._multiply(x, bias)

    def _multiply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x Wᵀ + b, by what is fastest for so many rows."""
        if self._of_bytes is not None:
            product: Tensor = self._of_bytes(x, bias)
            return product
        if x.dim() == 2 and x.shape[0] == 1:
            row = x[0]
            return (torch.mv(self.weight, row) if bias is None else torch.addmv(bias, self.weight, row))[None]
        if not self._packed:
            packs = self.weight.is_contiguous()  # packing a transposed weight costs more than dozens of products gain
            with torch.no_grad():
                reason = onednn.refuse(x, self.weight, bias, packs=packs)
            if reason is not None:
                return reference.linear(x, self.weight, bias)
            self._packed.append(onednn.pack(self.weight, x.shape[:-1].numel()) if packs else self.weight)
        if x.numel() * self.weight.shape[0] < onednn.MIN_WORK_PACKED:
            return reference.linear(x, self.weight, bias)
        return onednn.linear(x, self._packed[0], bias)


def rounded(multiply: Callable[[Tensor], Tensor], x: Tensor, bias: Tensor | None) -> Tensor:
    """A product that is rounded to bfloat16, as x is; the bias is added in float32, as it need not be rounded."""
    product = multiply(x.bfloat16()).float()
    return product if bias is None else product.add_(bias)


def byte_product(weight: Tensor) -> Any:
    """x Wᵀ + b with the weight as bytes.

    Raises:
        UnsupportedError: if there are no kernels for it.
    """
    reason = (
        refuse_kernels(weight)
        or refuse_numba(KERNELS, weight)
        or refuse_device("cpu", weight)
        or refuse_types(weight, types=(torch.float32,))
    )
    if reason is not None:
        raise UnsupportedError(f"weights: int8 is impossible here: {reason}.")
    return loaded(KERNELS, "ByteProduct")(weight)


class SharedProduct(over_steps.Shared):
    """x Wᵀ + b for one weight.

    Args:
        weight: (N, K).
        bias: (N) or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__((weight, bias), _sums)
        self.product = PackedProduct(weight)
        self.back = PackedProduct(weight.t())


MIN_WORK = 1 << 20
"""Multiply-adds from which on it is worth keeping what the gradient of a weight is made of."""


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether a product is no smaller than what keeping its gradient costs, and of one type."""
    if x.numel() * weight.shape[0] < MIN_WORK or x.dtype != weight.dtype or x.dim() < 2 or x.is_meta:
        return False
    return refuse_autocast(x) is None


def packs(loop: over_steps.Loop, x: Tensor, weight: Tensor) -> bool:
    """Whether a product without gradients is one of a weight that is laid out for all steps."""
    return loop.stores_bytes or (x.is_cpu and x.dim() == 2 and x.dtype == weight.dtype and x.dtype in FLOATS)


def linear(loop: over_steps.Loop, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b."""
    shared = loop.shared(SharedProduct, weight, bias)
    y: Tensor = over_steps.apply(_Product, shared, x, *shared.handles)
    return y


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shared: SharedProduct, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.uses, ctx.back = shared.uses, shared.back
        ctx.save_for_backward(x, weight)
        return shared.product(x, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad[1:]
        with without_autocast(x.device.type):
            if torch.is_grad_enabled():  # create_graph: products that torch can differentiate again
                rows = gradient.flatten(0, -2)
                of_weights = rows.t() @ x.flatten(0, -2) if of_weight else None, rows.sum(0) if of_bias else None
                return None, gradient @ weight if of_x else None, *of_weights
            ctx.uses.kept.append((gradient, x))
            return None, ctx.back(gradient) if of_x else None, None, None


def _sums(kept: Sequence[tuple[Tensor, Tensor]]) -> Sequence[Tensor | None]:
    gradients, inputs = (torch.cat([x.flatten(0, -2) for x in parts]) for parts in zip(*kept, strict=True))
    return gradients.t() @ inputs, gradients.sum(0)
