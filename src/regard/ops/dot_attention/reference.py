"""The plain formula."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float


def dot_attention(
    query: Float[Tensor, "B T H D"],
    keys: Float[Tensor, "B S G D"],
    values: Float[Tensor, "B S J V"],
    support: Bool[Tensor, "#B #T S"] | None = None,
    *,
    scale: float = 1.0,
    causal: bool = False,
) -> Float[Tensor, "B T H V"]:
    """c_t = Σ_s α_ts v_s with α = softmax(scale · q_t k_sᵀ) over the support; heads side by side share keys and values.

    Cost: T·S weights for every head, several times over.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), equation 1, with everything already projected.

    >>> dot_attention(torch.zeros(1, 2, 4, 3), torch.zeros(1, 5, 2, 3), torch.ones(1, 5, 1, 6)).shape
    torch.Size([1, 2, 4, 6])
    """
    if causal:
        past = query.new_ones(query.shape[1], keys.shape[1], dtype=torch.bool).tril()
        support = past[None] if support is None else support & past
    # n heads side by side share keys: (B, T, G, n, D) × (B, S, G, D) to (B, G, n, T, S), heads joined again
    shared = query.unflatten(2, (keys.shape[2], -1))
    energies = scale * torch.einsum("btgnd,bsgd->bgnts", shared, keys).flatten(1, 2)
    weights = masked_softmax(energies, None if support is None else support[:, None])
    # values may be shared by another number of heads, J groups
    context = torch.einsum("bjnts,bsjv->btjnv", weights.unflatten(1, (values.shape[2], -1)), values)
    return context.flatten(2, 3)
