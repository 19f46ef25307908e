"""Where a reader that moves from left to right stops: in expectation, or as it decides at each position."""

from __future__ import annotations

from torch import Tensor

from regard.ops.choose import Implementation
from regard.ops.choose import choose as choose_implementation
from regard.ops.monotonic import parallel, reference
from regard.shapes import Float

MAX_SEQUENTIAL = 8
"""Up to so many positions a loop is as fast as doubling."""


def refuse_few(choose: Tensor | None = None, previous: Tensor | None = None) -> str | None:
    """Why doubling does not pay, or None: for a handful of positions."""
    if choose is None or not isinstance(choose.shape[-1], int) or choose.shape[-1] > MAX_SEQUENTIAL:
        return None
    return f"{choose.shape[-1]} positions are as quickly read one after the other; it pays from {MAX_SEQUENTIAL + 1}"


EXPECTED_MONOTONIC_ALIGNMENT = (
    Implementation("parallel", parallel.expected_monotonic_alignment, refuse_few),
    Implementation("reference", reference.expected_monotonic_alignment),
)


def expected_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """Where a left-to-right reader stops, in expectation, when it starts at `previous`.

    q_j = (1 - p_{j-1}) q_{j-1} + α_{i-1,j},  α_{i,j} = p_j q_j.

    Args:
        choose: p, the probability of stopping at each position once there.
        previous: α_{i-1}, where the last step stopped.

    Returns:
        α_i; it sums to at most 1, less by the probability of running past the end.

    Numerics: no division and no logarithm, so no mass is lost at any length. Half types are computed in float32.

    Source: Raffel et al. 2017 (arXiv 1704.00784), equations 8 to 11.

    >>> import torch
    >>> expected_monotonic_alignment(torch.tensor([0.5, 0.5, 0.5]), torch.tensor([1.0, 0.0, 0.0]))
    tensor([0.5000, 0.2500, 0.1250])
    """
    return choose_implementation(EXPECTED_MONOTONIC_ALIGNMENT, choose, previous).function(choose, previous)


def hard_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """1 at the first position with p > 1/2, from where the last step stopped, that position included; else 0.

    A row without such a position is all zeros: the reader ran past the end, and from a `previous` of zeros it stays
    there, so nothing is attended to from then on. If `previous` has several positions, each part of its mass moves so.

    There is no gradient with respect to p.

    Source: Raffel et al. 2017 (arXiv 1704.00784), section 2.2 and algorithm 1.

    >>> import torch
    >>> hard_monotonic_alignment(torch.tensor([0.9, 0.2, 0.7, 0.8]), torch.tensor([0.0, 1.0, 0.0, 0.0]))
    tensor([0., 0., 1., 0.])
    """
    # with p of 0 or 1 the expectation is the decision
    return expected_monotonic_alignment((choose > 0.5).to(choose.dtype), previous)
