"""Products with a weight matrix by the fastest library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import UnsupportedError
from regard.ops import half, onednn, over_steps
from regard.ops.autograd import without_autocast
from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import (
    FLOATS,
    autocast_reason,
    device_reason,
    kernel_reason,
    numba_reason,
    type_reason,
)
from regard.shapes import Float

KERNELS = "regard.ops.kernels.linear"
MIN_WORK = 1 << 20
"""The fewest multiply-adds for which a loop collects the gradient of a weight."""


def linear(
    x: Float[Tensor, "*rows K"],
    weight: Float[Tensor, "N K"],
    bias: Float[Tensor, " N"] | None = None,
    *,
    bfloat16: bool = False,
) -> Float[Tensor, "*rows N"]:
    """x Wᵀ + b.

    Args:
        bfloat16: rounds x and W to bfloat16, and their product before the bias is added; for float32 without autograd.

    >>> linear(torch.ones(2, 3), torch.ones(1, 3))
    tensor([[3.],
            [3.]])
    """
    if bfloat16:
        return rounded(partial(linear, weight=weight.bfloat16()), x, bias)
    if (copies := half.current()) is not None:
        x, weight, bias = copies.of_product(x, weight, bias)
    if (loop := over_steps.current(x, weight)) is not None:
        if loop.collects and weight.requires_grad and pays(x, weight):
            return linear_in_loop(loop, x, weight, bias)
        if not loop.collects and packs(loop, x, weight):
            return loop.shared(PackedProduct, weight, as_bytes=loop.stores_bytes)(x, bias)
    is_small = not onednn.IS_WIDE or x.numel() * weight.shape[0] < onednn.MIN_WORK
    if torch.compiler.is_compiling() or not x.is_cpu or is_small:
        return functional.linear(x, weight, bias)
    return choose(LINEAR, x, weight, bias).function(x, weight, bias)


def outer(left: Float[Tensor, "M N"], right: Float[Tensor, "M K"], *, bfloat16: bool = False) -> Float[Tensor, "N K"]:
    """Σ_m left_mn right_mk: grad_W from grad_y (M, N) and x (M, K); without autograd."""
    if bfloat16:
        return (left.bfloat16().t() @ right.bfloat16()).float()
    return choose(OUTER, left, right).function(left, right)


def plain_outer(left: Tensor, right: Tensor) -> Tensor:
    """leftᵀ right (N, K) of (M, N) and (M, K)."""
    return left.t() @ right


def differentiable_reason(x: Any = None, weight: Any = None, bias: Any = None) -> str | None:
    """Why oneDNN does not compute x Wᵀ and its gradients, or None."""
    with torch.no_grad():  # required gradients are no reason here
        reason = onednn.unsupported_reason(x, weight, bias)
    if reason is None and x is not None and torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    return reason


def differentiable(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b by oneDNN, forward and backward."""
    y: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class _Linear(torch.autograd.Function):
    """grad_x = grad_y W,  grad_W = grad_yᵀ x,  grad_b = Σ rows of grad_y"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows, grad = x.flatten(0, -2), grad_y.flatten(0, -2)
        # create_graph: torch's products, which have second derivatives
        linear, outer = (functional.linear, plain_outer) if torch.is_grad_enabled() else (onednn.linear, onednn.outer)
        with without_autocast("cpu"):
            return (
                linear(grad, weight.t()).view(x.shape) if of_x else None,
                outer(grad, rows) if of_weight else None,
                grad.sum(0) if of_bias else None,
            )


class PackedProduct:
    """x Wᵀ + b with a weight that the first sufficiently large product packs; without autograd.

    The product with a single row is as fast as the weight can be read, and needs no packed weight.

    Args:
        weight: (N, K).
        as_bytes: stores the weight as bytes.
        bfloat16: as in `ops.linear`.

    Raises:
        UnsupportedError: if the kernels for bytes cannot be used here.
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
        """x Wᵀ + b by the fastest product for this number of rows."""
        if self._of_bytes is not None:
            product: Tensor = self._of_bytes(x, bias)
            return product
        if x.dim() == 2 and x.shape[0] == 1:
            row = x[0]
            return (torch.mv(self.weight, row) if bias is None else torch.addmv(bias, self.weight, row))[None]
        if not self._packed:
            packs = self.weight.is_contiguous()  # packing a transposed weight costs more than dozens of products save
            with torch.no_grad():
                reason = onednn.unsupported_reason(x, self.weight, bias, packs=packs)
            if reason is not None:
                return functional.linear(x, self.weight, bias)
            self._packed.append(onednn.pack(self.weight, x.shape[:-1].numel()) if packs else self.weight)
        if x.numel() * self.weight.shape[0] < onednn.MIN_WORK_PACKED:
            return functional.linear(x, self.weight, bias)
        return onednn.linear(x, self._packed[0], bias)


def rounded(multiply: Callable[[Tensor], Tensor], x: Tensor, bias: Tensor | None) -> Tensor:
    """A product of x rounded to bfloat16, rounded to bfloat16, plus the bias in float32."""
    product = multiply(x.bfloat16()).float()
    return product if bias is None else product.add_(bias)


def byte_product(weight: Tensor) -> Any:
    """x Wᵀ + b with the weight as bytes.

    Raises:
        UnsupportedError: if the kernels cannot be used here.
    """
    reason = (
        kernel_reason(weight)
        or numba_reason(KERNELS, weight)
        or device_reason("cpu", weight)
        or type_reason(weight, types=(torch.float32,))
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


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether a product is large enough to collect its gradient, and of one type."""
    if x.numel() * weight.shape[0] < MIN_WORK or x.dtype != weight.dtype or x.dim() < 2 or x.is_meta:
        return False
    return x.dtype not in FLOATS or autocast_reason(x) is None  # autocast changes no half types


def packs(loop: over_steps.Loop, x: Tensor, weight: Tensor) -> bool:
    """Whether a product without gradients uses a weight that is packed for all steps."""
    return loop.stores_bytes or (x.is_cpu and x.dim() == 2 and x.dtype == weight.dtype and x.dtype in FLOATS)


def linear_in_loop(loop: over_steps.Loop, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b in a step of a loop, which computes the gradients of W and b once for all steps."""
    shared = loop.shared(SharedProduct, weight, bias)
    y: Tensor = over_steps.apply(_Product, shared, x, *shared.handles)
    return y


class _Product(torch.autograd.Function):
    """grad_x_t = grad_y_t W,  grad_W = Σ_t grad_y_tᵀ x_t,  grad_b = Σ_t Σ rows of grad_y_t"""

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
            if torch.is_grad_enabled():  # create_graph: torch's products, which have second derivatives
                rows = gradient.flatten(0, -2)
                of_weights = rows.t() @ x.flatten(0, -2) if of_weight else None, rows.sum(0) if of_bias else None
                return None, gradient @ weight if of_x else None, *of_weights
            ctx.uses.factors.append((gradient, x))
            return None, ctx.back(gradient) if of_x else None, None, None


def _sums(factors: Sequence[tuple[Tensor, Tensor]]) -> Sequence[Tensor | None]:
    gradients, inputs = (torch.cat([x.flatten(0, -2) for x in parts]) for parts in zip(*factors, strict=True))
    return gradients.t() @ inputs, gradients.sum(0)


LINEAR = (
    Implementation("onednn", onednn.linear, onednn.unsupported_reason),
    Implementation("onednn, with gradients", differentiable, differentiable_reason),
    Implementation("reference", functional.linear),
)


OUTER = (Implementation("onednn", onednn.outer, onednn.outer_reason), Implementation("reference", plain_outer))
