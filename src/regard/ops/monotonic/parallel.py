"""The same recursions in log₂ S passes over all positions at once.

    y_j = d_j y_{j-1} + x_j

Where Y_j and D_j hold the inputs and the product of decays of the last n positions up to j, those of the last 2n are
Y_j + D_j Y_{j-n} and D_j D_{j-n}.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.forward_mode import apply
from regard.shapes import Bool, Float

NUM_DOUBLINGS = 14
"""Passes in an exported program for any number of positions, which must then be fewer than 2^14 = 16,384."""


def expected_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """α_j = p_j q_j with q_j = (1 - p_{j-1}) q_{j-1} + α_{i-1,j}, by doubling.

    Numerics: sums and products of numbers that are not negative, no division and no logarithm, so every α_j has a
    small relative error at any length. Half types are computed in float32.
    Cost: 2 log₂ S passes over S numbers forward, as many backward; what is kept for the gradient is 3 S numbers.
    """
    kept = torch.promote_types(choose.dtype, previous.dtype)
    working = torch.promote_types(kept, torch.float32)
    choose, previous = choose.to(working), previous.to(working)
    return (choose * linear_recurrence((1 - choose)[..., :-1], previous)).to(kept)


def lookback_softmax(
    stops: Float[Tensor, "R H S"],
    energies: Float[Tensor, "R H S"],
    support: Bool[Tensor, "R G S"] | None,
    width: int | None = None,
) -> Float[Tensor, "R H S"]:
    """`moving_chunk_softmax` whose chunks all begin at the first position: no width, or one of S or more.

    With w_j = exp(u_j) / Σ_{l ≤ j} exp(u_l), the mass of position j is β_j = w_j s_j with
    s_j = (1 - w_{j+1}) s_{j+1} + α_j: a monotonic reader that walks back from every stop and chooses with w.

    Cost: that of the reader, S numbers instead of S².
    """
    kept = torch.promote_types(stops.dtype, energies.dtype)
    working = torch.promote_types(kept, torch.float32)
    energies = energies.to(working)
    # w_j = exp(u_j - log Σ_{l ≤ j} exp(u_l)), the share of j among the positions up to it
    if support is None:
        last_of_prefix = (energies - energies.logcumsumexp(-1)).exp()
    else:
        filled = energies.masked_fill(~support, torch.finfo(working).min / 4)  # finite: -∞ has no gradient here
        last_of_prefix = (filled - filled.logcumsumexp(-1)).exp().masked_fill(~support, 0)
    # from right to left: the recursion of the reader, on flipped positions
    return expected_monotonic_alignment(last_of_prefix.flip(-1), stops.to(working).flip(-1)).flip(-1).to(kept)


def linear_recurrence(decay: Float[Tensor, "*rows S1"], inputs: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows S"]:
    """y_0 = x_0, y_j = d_j y_{j-1} + x_j, for d_1 … d_{S-1}; differentiable any number of times."""
    return apply(_LinearRecurrence, _LinearRecurrenceWithTangents, decay, inputs)


class _LinearRecurrence(torch.autograd.Function):
    """The gradient of a recurrence is the recurrence that runs back: h_j = g_j + d_{j+1} h_{j+1}."""

    generate_vmap_rule = True

    @staticmethod
    def forward(decay: Tensor, inputs: Tensor) -> Tensor:
        """Doubling: after each pass y_j holds the inputs of twice as many positions."""
        if not isinstance(inputs.shape[-1], int):
            return _any_number(decay, inputs)
        # the first `reach` positions are complete: nothing stands before their inputs
        reach = 1
        while reach < inputs.shape[-1]:
            later = torch.addcmul(inputs[..., reach:], decay, inputs[..., :-reach])
            inputs = torch.cat([inputs[..., :reach], later], -1)
            decay = decay[..., reach:] * decay[..., :-reach]
            reach *= 2
        return inputs.clone() if reach == 1 else inputs  # a single position: the result must not be the input itself

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keeps d and y."""
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """∂x_j = h_j, ∂d_j = h_j y_{j-1}."""
        decay, output = ctx.saved_tensors
        grad_inputs = linear_recurrence(decay.flip(-1), gradients[0].flip(-1)).flip(-1)
        return grad_inputs[..., 1:] * output[..., :-1], grad_inputs


def _any_number(decay: Tensor, inputs: Tensor) -> Tensor:
    """The same for a number of positions below 2^NUM_DOUBLINGS that is not known while a program is exported."""
    if torch.compiler.is_exporting():  # a program without this bound would be wrong beyond it
        torch._check(inputs.shape[-1] < 1 << NUM_DOUBLINGS)
    positions = torch.arange(inputs.shape[-1], device=inputs.device)
    # every pass takes all positions, as their number is a symbol; the first `reach` are complete
    decay = torch.nn.functional.pad(decay, (1, 0))
    for reach in (1 << step for step in range(NUM_DOUBLINGS)):
        before, inside = (positions - reach).clamp(min=0), positions >= reach
        inputs = inputs + torch.where(inside, decay * inputs.index_select(-1, before), 0)
        decay = torch.where(inside, decay * decay.index_select(-1, before), 0)
    return inputs


class _LinearRecurrenceWithTangents(_LinearRecurrence):
    """The derivative in forward mode is the same recurrence: ẏ_j = d_j ẏ_{j-1} + ḋ_j y_{j-1} + ẋ_j."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        decay, output = ctx.saved_tensors
        decay_tangent, inputs_tangent = tangents
        # the inputs of the recurrence of tangents: ẋ_j + ḋ_j y_{j-1}, of which the first position has only ẋ
        tangent = torch.zeros_like(output) if inputs_tangent is None else inputs_tangent
        if decay_tangent is not None:
            tangent = tangent + torch.nn.functional.pad(decay_tangent * output[..., :-1], (1, 0))
        return linear_recurrence(decay, tangent)
