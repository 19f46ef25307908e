"""Where a reader stops that decides at each position, as in decoding, and has no probabilities."""

from __future__ import annotations

from torch import Tensor

from regard.ops.monotonic.expected import expected_monotonic_alignment
from regard.shapes import Float


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
