"""Sums of what earlier steps had, of all steps of a sequence at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.eligibility import refuse_kernels
from regard.shapes import Float


def sums_before(
    first: Float[Tensor, "R C S"], *maps: Float[Tensor, "R T _ S"]
) -> tuple[Float[Tensor, "R T C S"], Float[Tensor, "R C S"]]:
    """The sums before each step, a_t = a_0 + Σ_{u<t} x_u, and that after the last one.

    Args:
        first: a_0.
        maps: x, in one part or several, which are concatenated to C maps.
    """
    if refuse_kernels(first, *maps) is None and first.dtype == maps[0].dtype:
        before, after = _SumsBefore.apply(first, *maps)  # type: ignore[no-untyped-call]
        return before, after
    return reference(first, *maps)


def reference(first: Tensor, *maps: Tensor) -> tuple[Tensor, Tensor]:
    """`sums_before` in torch's operations."""
    x = torch.cat(maps, 2) if len(maps) > 1 else maps[0]
    sums = torch.cat([first[:, None].to(x.dtype), x], 1).cumsum(1)
    return sums[:, :-1], sums[:, -1]


class _SumsBefore(torch.autograd.Function):
    """Keeps nothing: the gradient of x_u is the sum of those of all later a_t.

    Each step is one sum of neighbouring numbers, where torch's running sum walks over an axis with long strides, and
    needs copies before it and after it, and two turns round backward.
    """

    @staticmethod
    def forward(ctx: Any, first: Tensor, *maps: Tensor) -> tuple[Tensor, Tensor]:
        ctx.widths = [x.shape[2] for x in maps]
        rows, steps = maps[0].shape[:2]
        before, after = first.new_empty(rows, steps, *first.shape[1:]), torch.empty_like(first)
        for t in range(steps):
            if t == 0:
                before[:, 0] = first
            target = before[:, t + 1] if t + 1 < steps else after
            for piece, sums, x in zip(
                target.split(ctx.widths, 1), before[:, t].split(ctx.widths, 1), maps, strict=True
            ):
                torch.add(sums, x[:, t], out=piece)
        return before, after

    @staticmethod
    def backward(ctx: Any, grad_before: Tensor, grad_after: Tensor) -> Any:
        if torch.is_grad_enabled():  # create_graph: in torch's operations, so that it can be differentiated again
            tail = torch.cat([grad_before[:, 1:], grad_after[:, None]], 1).flip(1).cumsum(1).flip(1)
            return tail[:, 0] + grad_before[:, 0], *tail.split(ctx.widths, 2)
        grad, steps = torch.empty_like(grad_before), grad_before.shape[1]
        grad[:, -1] = grad_after
        for t in range(steps - 1, 0, -1):
            torch.add(grad[:, t], grad_before[:, t], out=grad[:, t - 1])
        return grad[:, 0] + grad_before[:, 0], *grad.split(ctx.widths, 2)
