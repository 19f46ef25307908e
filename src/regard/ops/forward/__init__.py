"""Forward attention in logarithms: α = softmax(e + log m), where m is the alignment before, moved on."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.ops import over_steps, second_order
from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import refuse_compiled
from regard.ops.forward import reference
from regard.shapes import Bool, Float

KERNELS = "regard.ops.forward.numba"


def forward_alignment(
    energies: Float[Tensor, "R H S"],
    previous: Float[Tensor, "R H S"],
    move: Float[Tensor, "R H"],
    support: Bool[Tensor, "R G S"] | None,
    floor: float = 0.0,
) -> Float[Tensor, "R H S"]:
    """α_n = m_n exp(e_n) / Σ_k m_k exp(e_k) over the support, with m_n = (1 - u) α_{i-1,n} + u α_{i-1,n-1} + ε.

    Where the support holds no position with m > 0, the row begins anew with softmax(e): the limit ε → 0. A row
    without support gives zeros.

    Args:
        move: u, how likely each row and head moves on.
        floor: ε.

    Numerics: a softmax of e + log m, so that energies of any size leave a distribution. Half types are computed in
    float32.

    Source: Zhang, Ling & Dai 2018 (arXiv 1807.06736); their y is softmax(e), whose denominator cancels.
    """
    return forward_step(energies, previous, move, support, floor)[0]


def forward_step(
    energies: Tensor, previous: Tensor, move: Tensor, support: Tensor | None, floor: float = 0.0
) -> tuple[Float[Tensor, "R H S"], Float[Tensor, "R H S"]]:
    """As `forward_alignment`, and the alignment afterwards: the weights or, of a row without support, that before."""
    inputs = energies, previous, move, support
    found: tuple[Tensor, Tensor] = choose(FORWARD_ALIGNMENT, *inputs).function(*inputs, floor)
    return found


def _numba(
    energies: Tensor, previous: Tensor, move: Tensor, support: Tensor | None, floor: float = 0.0
) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = over_steps.apply(_Forward, energies, previous, move, support, floor)
    return found


class _Forward(torch.autograd.Function):
    """With m = (1 - u) a_n + u a_{n-1} + ε and z = e + log m: grad_m = grad_z / m, and so on to a and u."""

    @staticmethod
    def forward(
        ctx: Any, energies: Tensor, previous: Tensor, move: Tensor, support: Tensor | None, floor: float
    ) -> tuple[Tensor, Tensor]:
        weights, after, reach = loaded(KERNELS, "forward")(energies, previous, move, support, floor)
        ctx.save_for_backward(energies, previous, move, support, weights, reach)
        ctx.floor = floor
        ctx.set_materialize_grads(False)
        return weights, after

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, of_after: Tensor | None) -> Any:
        *inputs, weights, reach = ctx.saved_tensors
        if gradient is None and of_after is None:
            return (None,) * 5
        if torch.is_grad_enabled():
            function = partial(reference.forward_step, floor=ctx.floor)
            return *second_order.gradients(function, inputs, ctx.needs_input_grad[:4], (gradient, of_after)), None
        return *loaded(KERNELS, "backward")(gradient, of_after, weights, reach, *inputs[1:3]), None, None


FORWARD_ALIGNMENT = (
    Implementation("numba", _numba, partial(refuse_compiled, KERNELS)),
    Implementation("reference", reference.forward_step),
)
