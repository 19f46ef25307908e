"""The published parallel form, whose division has to be clipped."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import Float


def clipped_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """α_j = p_j c_j Σ_{k ≤ j} α_{i-1,k} / c_k with c_j = Π_{l < j} (1 - p_l), as tensorflow-addons computes it.

    It is `expected_monotonic_alignment` as long as c stays above 1e-10; beyond that position mass is lost. Of 200
    positions with p between 0.1 and 0.9, from a uniform start, about a seventh is left. For comparisons only.

    Numerics: c = exp(Σ log max(1 - p, tiny)); the divisor is clipped to 1e-10. Half types are computed in float32.

    Source: Raffel et al. 2017 (arXiv 1704.00784), appendix C; the clipping: `monotonic_attention` of
    tensorflow-addons, mode `parallel`.
    """
    kept = torch.promote_types(choose.dtype, previous.dtype)
    working = torch.promote_types(kept, torch.float32)
    choose, previous = choose.to(working), previous.to(working)
    survived = clipped_product(1 - choose, -1, exclusive=True)
    return (choose * survived * (previous / survived.clamp(1e-10, 1)).cumsum(-1)).to(kept)


def clipped_product(
    x: Float[Tensor, "*rows"], dim: int, *, exclusive: bool = False, reverse: bool = False
) -> Float[Tensor, "*rows"]:
    """The cumulative product along an axis, exp(Σ log max(x, tiny)), for x in [0, 1].

    Args:
        exclusive: the product of the numbers before each one, which is 1 for the first.
        reverse: from the end to the beginning.
    """
    sums = x.clamp(torch.finfo(x.dtype).tiny, 1).log()
    sums = sums.flip(dim) if reverse else sums
    if exclusive:
        first = torch.zeros_like(sums.narrow(dim, 0, min(1, sums.shape[dim])))
        sums = torch.cat([first, sums.narrow(dim, 0, max(sums.shape[dim] - 1, 0))], dim)
    product = sums.cumsum(dim).exp()
    return product.flip(dim) if reverse else product
