"""Forward attention in logarithms: α = softmax(e + log m), with m of the previous alignment."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.ops import over_steps
from regard.ops.autograd import second_order_gradients
from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import compiled_reason
from regard.ops.logarithm import safe_log, widen
from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float

KERNELS = "regard.ops.kernels.forward"


def forward_alignment(
    energies: Float[Tensor, "R H S"],
    previous: Float[Tensor, "R H S"],
    move: Float[Tensor, "R H"],
    support: Bool[Tensor, "R G S"] | None,
    floor: float = 0.0,
) -> Float[Tensor, "R H S"]:
    """α_n = m_n exp(e_n) / Σ_k m_k exp(e_k) over the support, with m_n = (1 - u) α_{i-1,n} + u α_{i-1,n-1} + ε.

    If no position of the support has m > 0, the row is softmax(e), the limit ε → 0. A row without support gives zeros.

    Args:
        move: u, the probability of moving to the next position, of each row and head.
        floor: ε.

    Numerics: a softmax of e + log m, so that energies of any size leave a distribution. Half types are computed in
    float32.

    Source: Zhang, Ling & Dai 2018 (arXiv 1807.06736); their y is softmax(e), whose denominator cancels.
    """
    return forward_step(energies, previous, move, support, floor)[0]


def forward_step(
    energies: Tensor, previous: Tensor, move: Tensor, support: Tensor | None, floor: float = 0.0
) -> tuple[Float[Tensor, "R H S"], Float[Tensor, "R H S"]]:
    """`forward_alignment`, and the next `previous`: the weights, or in a row without support `previous`."""
    inputs = energies, previous, move, support
    result: tuple[Tensor, Tensor] = choose(FORWARD_ALIGNMENT, *inputs).function(*inputs, floor)
    return result


def _numba(
    energies: Tensor, previous: Tensor, move: Tensor, support: Tensor | None, floor: float = 0.0
) -> tuple[Tensor, Tensor]:
    result: tuple[Tensor, Tensor] = over_steps.apply(_Forward, energies, previous, move, support, floor)
    return result


class _Forward(torch.autograd.Function):
    """With m_n = (1 - u) a_n + u a_{n-1} + ε and z = e + log m: grad_m = grad_z / m, then grad_a and grad_u."""

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
            function = partial(reference, floor=ctx.floor)
            return *second_order_gradients(function, inputs, ctx.needs_input_grad[:4], (gradient, of_after)), None
        return *loaded(KERNELS, "backward")(gradient, of_after, weights, reach, *inputs[1:3]), None, None


def move_on(previous: Float[Tensor, "R H S"], move: Float[Tensor, "R H"]) -> Float[Tensor, "R H S"]:
    """m_n = (1 - u) α_{i-1,n} + u α_{i-1,n-1}.

    >>> move_on(torch.tensor([[[0.5, 0.5, 0.0]]]), torch.tensor([[0.25]]))
    tensor([[[0.3750, 0.5000, 0.1250]]])
    """
    moved = torch.nn.functional.pad(previous, (1, 0))[..., :-1]
    return (1 - move[..., None]) * previous + move[..., None] * moved


def reference(
    energies: Float[Tensor, "R H S"],
    previous: Float[Tensor, "R H S"],
    move: Float[Tensor, "R H"],
    support: Bool[Tensor, "R G S"] | None,
    floor: float = 0.0,
) -> tuple[Float[Tensor, "R H S"], Float[Tensor, "R H S"]]:
    """The formula of `forward_step`."""
    working = torch.promote_types(energies.dtype, torch.float32)
    # log m (R, H, S): -∞, without a gradient, at positions that cannot be reached
    reach = safe_log(move_on(widen(previous).to(working), move.to(working)) + floor)
    reached = ~reach.isneginf()
    if support is not None:
        reached = reached & support
    # a row that reaches no position of its support is softmax(e) over the support, without log m
    anew = ~reached.any(-1, keepdim=True)
    allowed = reached | (anew if support is None else anew & support)
    weights = masked_softmax(energies.to(working) + reach.masked_fill(anew, 0.0), allowed)
    weights = weights.to(torch.promote_types(energies.dtype, previous.dtype))
    return weights, torch.where(weights.any(-1, keepdim=True), weights, previous)


FORWARD_ALIGNMENT = (
    Implementation("numba", _numba, partial(compiled_reason, KERNELS)),
    Implementation("reference", reference),
)
