"""Alignments of monotonic attention: expected, hard, and with a softmax over the chunk before each stop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.autograd import apply
from regard.ops.choose import Implementation
from regard.ops.choose import choose as implementation_of
from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float

NUM_DOUBLINGS = 14
"""Passes of an exported program for any number of positions below 2^14 = 16,384."""
MAX_SEQUENTIAL = 8
"""The most positions for which a loop is as fast as doubling."""


def expected_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """The expected stop of a left-to-right reader that starts at `previous`.

    q_j = (1 - p_{j-1}) q_{j-1} + α_{i-1,j},  α_{i,j} = p_j q_j.

    Args:
        choose: p, the probability of stopping at each position, once reached.
        previous: α_{i-1}, the alignment of the step before.

    Returns:
        α_i, whose sum is 1 minus the probability of passing the end.

    Numerics: no division and no logarithm, so no mass is lost at any length. Half types are computed in float32.

    Source: Raffel et al. 2017 (arXiv 1704.00784), equations 8 to 11.

    >>> import torch
    >>> expected_monotonic_alignment(torch.tensor([0.5, 0.5, 0.5]), torch.tensor([1.0, 0.0, 0.0]))
    tensor([0.5000, 0.2500, 0.1250])
    """
    return implementation_of(EXPECTED_MONOTONIC_ALIGNMENT, choose, previous).function(choose, previous)


def hard_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """1 at the first position with p > 1/2 at or after that of `previous`; 0 elsewhere.

    A row without such a position is all zeros: the reader passed the end, and stays there, as a `previous` of zeros
    gives zeros. If `previous` has several positions, each part of its mass moves so.

    There is no gradient with respect to p.

    Source: Raffel et al. 2017 (arXiv 1704.00784), section 2.2 and algorithm 1.

    >>> import torch
    >>> hard_monotonic_alignment(torch.tensor([0.9, 0.2, 0.7, 0.8]), torch.tensor([0.0, 1.0, 0.0, 0.0]))
    tensor([0., 0., 1., 0.])
    """
    # if p is 0 or 1, the expectation is the hard alignment
    return expected_monotonic_alignment((choose > 0.5).to(choose.dtype), previous)


def moving_chunk_softmax(
    stops: Float[Tensor, "R H S"],
    energies: Float[Tensor, "R H S"],
    support: Bool[Tensor, "R G S"] | None,
    width: int | None,
) -> Float[Tensor, "R H S"]:
    """Distributes the mass of each stop over the `width` positions up to it, by a softmax of energies.

    β_j = Σ_{k=j}^{j+w-1} α_k · exp(u_j) / Σ_{l=k-w+1}^{k} exp(u_l).

    Args:
        stops: α, the mass of each stop.
        energies: u.
        support: which positions may have mass; that of a chunk without support is lost.
        width: w; if None, every chunk begins at the first position.

    Cost: S·w numbers, as each chunk has its own softmax, which is exact for any energies; S numbers if w ≥ S.

    Source: Chiu & Raffel 2018 (arXiv 1712.05382), equation 11; without a width: Arivazhagan et al. 2019
    (arXiv 1906.05218).
    """
    return implementation_of(MOVING_CHUNK_SOFTMAX, stops, energies, support, width).function(
        stops, energies, support, width
    )


def reference_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """q_j = (1 - p_{j-1}) q_{j-1} + α_{i-1,j},  α_{i,j} = p_j q_j: S steps. Half types are computed in float32."""
    kind = torch.promote_types(choose.dtype, previous.dtype)
    working = torch.promote_types(kind, torch.float32)
    choose, previous = choose.to(working), previous.to(working)
    # `arrived` is q_j (…), the mass that reaches position j; `passed_on` is its part that does not stop there
    passed_on = previous.new_zeros(previous.shape[:-1])
    alignment = []
    for p, start in zip(choose.unbind(-1), previous.unbind(-1), strict=True):
        arrived = passed_on + start
        passed_on = (1 - p) * arrived
        alignment.append(p * arrived)
    return (torch.stack(alignment, -1) if alignment else torch.zeros_like(previous)).to(kind)


def reference_chunk_softmax(
    stops: Float[Tensor, "R H S"],
    energies: Float[Tensor, "R H S"],
    support: Bool[Tensor, "R G S"] | None,
    width: int | None,
) -> Float[Tensor, "R H S"]:
    """β_j = Σ_k α_k softmax(u over the w positions up to k)_j, with a softmax for every chunk."""
    num_positions = energies.shape[-1]
    if isinstance(num_positions, int):  # a symbol in an exported program
        if num_positions == 0:
            return torch.zeros_like(stops)
        width = num_positions if width is None else min(width, num_positions)
    assert width is not None
    allowed = torch.ones_like(energies, dtype=torch.bool) if support is None else support.expand_as(energies)
    # chunks (R, H, S, w): chunk k ends at position k; before the first position nothing is allowed
    before = (width - 1, 0)
    chunks = torch.nn.functional.pad(energies, before).unfold(-1, width, 1)
    inside = torch.nn.functional.pad(allowed, before).unfold(-1, width, 1)
    mass = stops[..., None] * masked_softmax(chunks, inside)
    # entry i of chunk k is position j = k - (w - 1) + i, so β_j sums mass[j + (w - 1) - i, i] over i
    after = torch.nn.functional.pad(mass, (0, 0, 0, width - 1))
    return sum(
        (after[..., width - 1 - i : width - 1 - i + num_positions, i] for i in range(width)),
        start=torch.zeros_like(stops),
    )


def parallel_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """α_j = p_j q_j with q_j = (1 - p_{j-1}) q_{j-1} + α_{i-1,j}, by doubling.

    Numerics: sums and products of non-negative numbers, so that every α_j has a small relative error at any length.
    Half types are computed in float32.
    Cost: 2 log₂ S passes over S numbers forward, as many backward; 3 S numbers are saved for the gradient.
    """
    kind = torch.promote_types(choose.dtype, previous.dtype)
    working = torch.promote_types(kind, torch.float32)
    choose, previous = choose.to(working), previous.to(working)
    return (choose * linear_recurrence((1 - choose)[..., :-1], previous)).to(kind)


def lookback_softmax(
    stops: Float[Tensor, "R H S"],
    energies: Float[Tensor, "R H S"],
    support: Bool[Tensor, "R G S"] | None,
    width: int | None = None,
) -> Float[Tensor, "R H S"]:
    """`moving_chunk_softmax` whose chunks all begin at the first position: no width, or one of S or more.

    With w_j = exp(u_j) / Σ_{l ≤ j} exp(u_l), the mass of position j is β_j = w_j s_j with
    s_j = (1 - w_{j+1}) s_{j+1} + α_j: the expectation of a monotonic reader from right to left that stops with w.

    Cost: S numbers instead of S².
    """
    kind = torch.promote_types(stops.dtype, energies.dtype)
    working = torch.promote_types(kind, torch.float32)
    energies = energies.to(working)
    # w_j = exp(u_j - log Σ_{l ≤ j} exp(u_l)), the share of j among the positions up to it
    if support is None:
        last_of_prefix = (energies - energies.logcumsumexp(-1)).exp()
    else:
        filled = energies.masked_fill(~support, torch.finfo(working).min / 4)  # finite: -∞ has no gradient here
        last_of_prefix = (filled - filled.logcumsumexp(-1)).exp().masked_fill(~support, 0)
    # from right to left: the recursion of the reader, on flipped positions
    return parallel_alignment(last_of_prefix.flip(-1), stops.to(working).flip(-1)).flip(-1).to(kind)


def linear_recurrence(decay: Float[Tensor, "*rows S1"], inputs: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows S"]:
    """y_0 = x_0, y_j = d_j y_{j-1} + x_j, for d_1 … d_{S-1}; differentiable any number of times.

    Where Y_j and D_j hold the inputs and the product of decays of the last n positions up to j, those of the last 2n
    are Y_j + D_j Y_{j-n} and D_j D_{j-n}: log₂ S passes.
    """
    return apply(_LinearRecurrence, _LinearRecurrenceWithTangents, decay, inputs)


class _LinearRecurrence(torch.autograd.Function):
    """The gradient of a recurrence is the recurrence that runs back: h_j = g_j + d_{j+1} h_{j+1}."""

    generate_vmap_rule = True

    @staticmethod
    def forward(decay: Tensor, inputs: Tensor) -> Tensor:
        """Doubling: after each pass y_j holds the inputs of twice as many positions."""
        if not isinstance(inputs.shape[-1], int):
            return _any_number(decay, inputs)
        # the first `reach` positions are complete
        reach = 1
        while reach < inputs.shape[-1]:
            later = torch.addcmul(inputs[..., reach:], decay, inputs[..., :-reach])
            inputs = torch.cat([inputs[..., :reach], later], -1)
            decay = decay[..., reach:] * decay[..., :-reach]
            reach *= 2
        return inputs.clone() if reach == 1 else inputs  # the result must not be the input itself

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves d and y."""
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """∂x_j = h_j, ∂d_j = h_j y_{j-1}."""
        decay, output = ctx.saved_tensors
        grad_inputs = linear_recurrence(decay.flip(-1), gradients[0].flip(-1)).flip(-1)
        return grad_inputs[..., 1:] * output[..., :-1], grad_inputs


def _any_number(decay: Tensor, inputs: Tensor) -> Tensor:
    """The same for a symbolic number of positions below 2^NUM_DOUBLINGS, in exported programs."""
    if torch.compiler.is_exporting():  # a program without this bound would be wrong beyond it
        torch._check(inputs.shape[-1] < 1 << NUM_DOUBLINGS)
    positions = torch.arange(inputs.shape[-1], device=inputs.device)
    # every pass computes all positions; the first `reach` are complete
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
        # the inputs of the recurrence of tangents: ẋ_j + ḋ_j y_{j-1}, at the first position ẋ
        tangent = torch.zeros_like(output) if inputs_tangent is None else inputs_tangent
        if decay_tangent is not None:
            tangent = tangent + torch.nn.functional.pad(decay_tangent * output[..., :-1], (1, 0))
        return linear_recurrence(decay, tangent)


def few_reason(choose: Tensor | None = None, previous: Tensor | None = None) -> str | None:
    """Why doubling is not faster, or None."""
    if choose is None or not isinstance(choose.shape[-1], int) or choose.shape[-1] > MAX_SEQUENTIAL:
        return None
    return f"{choose.shape[-1]} positions are as quickly read one after the other; it pays from {MAX_SEQUENTIAL + 1}"


def width_reason(
    stops: Tensor | None = None, energies: Any = None, support: Any = None, width: int | None = None
) -> str | None:
    """Why chunks do not all begin at the first position, or None."""
    if stops is None or width is None:
        return None
    if not isinstance(stops.shape[-1], int):
        return f"chunks of {width} among any number of positions may begin at different places"
    if width >= stops.shape[-1]:
        return None
    return f"chunks of {width} among {stops.shape[-1]} positions begin at different places"


def clipped_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """α_j = p_j c_j Σ_{k ≤ j} α_{i-1,k} / c_k with c_j = Π_{l < j} (1 - p_l), as tensorflow-addons computes it.

    It equals `expected_monotonic_alignment` where c is above 1e-10; at later positions mass is lost. Of 200 positions
    with p between 0.1 and 0.9, from a uniform start, about a seventh remains. For comparisons only.

    Numerics: c = exp(Σ log max(1 - p, tiny)); the divisor is clipped to 1e-10. Half types are computed in float32.

    Source: Raffel et al. 2017 (arXiv 1704.00784), appendix C; the clipping: `monotonic_attention` of
    tensorflow-addons, mode `parallel`.
    """
    kind = torch.promote_types(choose.dtype, previous.dtype)
    working = torch.promote_types(kind, torch.float32)
    choose, previous = choose.to(working), previous.to(working)
    survived = clipped_product(1 - choose, -1, exclusive=True)
    return (choose * survived * (previous / survived.clamp(1e-10, 1)).cumsum(-1)).to(kind)


def clipped_product(
    x: Float[Tensor, "*rows"], dim: int, *, exclusive: bool = False, reverse: bool = False
) -> Float[Tensor, "*rows"]:
    """The cumulative product along an axis, exp(Σ log max(x, tiny)), for x in [0, 1].

    Args:
        exclusive: excludes the number itself; the first product is 1.
        reverse: from the end to the beginning.
    """
    sums = x.clamp(torch.finfo(x.dtype).tiny, 1).log()
    sums = sums.flip(dim) if reverse else sums
    if exclusive:
        first = torch.zeros_like(sums.narrow(dim, 0, min(1, sums.shape[dim])))
        sums = torch.cat([first, sums.narrow(dim, 0, max(sums.shape[dim] - 1, 0))], dim)
    product = sums.cumsum(dim).exp()
    return product.flip(dim) if reverse else product


EXPECTED_MONOTONIC_ALIGNMENT = (
    Implementation("parallel", parallel_alignment, few_reason),
    Implementation("reference", reference_alignment),
)


MOVING_CHUNK_SOFTMAX = (
    Implementation("parallel", lookback_softmax, width_reason),
    Implementation("reference", reference_chunk_softmax),
)
