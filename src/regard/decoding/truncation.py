"""Truncations of the next token's distribution before it is drawn: the tokens that are not kept get -inf.

They are applied in the order of this file, each to what the ones before it keep, renormalised.
"""

from __future__ import annotations

from math import inf, log

import torch
from torch import Tensor

from regard.ops import largest
from regard.shapes import Float

FEW = 100
"""So many tokens are looked at first: mostly they have the probability that is asked for."""


def truncated(
    log_probabilities: Float[Tensor, "R N"],
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    typical_p: float = 1.0,
) -> Float[Tensor, "R N"]:
    """Keeps `top_k` tokens, of these `top_p`, of these `min_p`, of these `typical_p`; at least one in each row.

    Args:
        log_probabilities: (R, N), not necessarily normalised.
        top_k, top_p, min_p, typical_p: as in the functions `keep_…`; by default all tokens are kept.

    >>> truncated(torch.tensor([[0.5, 0.3, 0.2]]).log(), top_p=0.7).exp()
    tensor([[0.5000, 0.3000, 0.0000]])
    """
    if top_k is not None and top_k < log_probabilities.shape[1]:
        log_probabilities = keep_top_k(log_probabilities, top_k)
    if top_p < 1:
        log_probabilities = keep_top_p(log_probabilities, top_p)
    if min_p > 0:
        log_probabilities = keep_min_p(log_probabilities, min_p)
    if typical_p < 1:
        log_probabilities = keep_typical(log_probabilities, typical_p)
    return log_probabilities


def keep_top_k(log_probabilities: Float[Tensor, "R N"], count: int) -> Float[Tensor, "R N"]:
    """The `count` most probable tokens, the first ones among equals (Fan 2018)."""
    values, indices = largest(log_probabilities, count)
    return torch.full_like(log_probabilities, -inf).scatter(1, indices, values)


def keep_top_p(log_probabilities: Float[Tensor, "R N"], mass: float) -> Float[Tensor, "R N"]:
    """The fewest, most probable tokens that together have the probability `mass` (nucleus sampling, Holtzman 2020)."""
    return _keep_mass(log_probabilities, log_probabilities, mass)


def keep_min_p(log_probabilities: Float[Tensor, "R N"], share: float) -> Float[Tensor, "R N"]:
    """Tokens at least `share` times as probable as the most probable one.

    Source: Nguyen et al. 2024, Turning Up the Heat: Min-p Sampling for Creative and Coherent LLM Outputs
    (arXiv 2407.01082), section 3.
    """
    top = log_probabilities.amax(1, keepdim=True)
    return log_probabilities.masked_fill(log_probabilities < top + log(share), -inf)


def keep_typical(log_probabilities: Float[Tensor, "R N"], mass: float) -> Float[Tensor, "R N"]:
    """The fewest tokens that together have the probability `mass`, those first whose information is nearest to the
    entropy: in the order of |-log p - H|, where H = -Σ p log p.

    Source: Meister et al. 2022, Locally Typical Sampling (arXiv 2202.00666), section 4.

    >>> keep_typical(torch.tensor([[0.4, 0.3, 0.15, 0.15]]).log(), 0.25).exp()
    tensor([[0.0000, 0.3000, 0.0000, 0.0000]])
    """
    normalised = log_probabilities.log_softmax(1)
    information = -normalised
    entropy = (normalised.exp() * information).masked_fill(normalised.isneginf(), 0).sum(1, keepdim=True)
    return _keep_mass(log_probabilities, -(information - entropy).abs(), mass)


def _keep_mass(
    log_probabilities: Float[Tensor, "R N"], order: Float[Tensor, "R N"], mass: float
) -> Float[Tensor, "R N"]:
    """The fewest tokens that together have the probability `mass`, those with the largest `order` first.

    The first tokens are looked at in all rows, and all tokens only in rows where the first have less.
    """
    total = log_probabilities.logsumexp(1, keepdim=True)

    def kept(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
        _, indices = largest(order[rows], count)
        values = log_probabilities[rows].gather(1, indices)
        probabilities = (values - total[rows]).exp()
        reached = probabilities.cumsum(1)
        before = reached - probabilities
        values = values.masked_fill((before >= mass) & (before > 0), -inf)
        return torch.full_like(log_probabilities[rows], -inf).scatter(1, indices, values), reached[:, -1] < mass

    everything, num_tokens = torch.arange(len(order), device=order.device), order.shape[1]
    result, short = kept(everything, min(FEW, num_tokens))
    if num_tokens > FEW and len(more := short.nonzero()[:, 0]):
        result[more] = kept(more, num_tokens)[0]
    return result
