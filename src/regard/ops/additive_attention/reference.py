"""The plain formula."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.ops.additive import reference
from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float


def additive_attention(
    query: Float[Tensor, "B T H D"],
    keys: Float[Tensor, "B S H D"],
    v: Float[Tensor, "H D"],
    values: Float[Tensor, "B S G V"],
    mask: Bool[Tensor, "B S"] | None = None,
    *,
    sharpening: float = 1.0,
) -> Float[Tensor, "B T H V"]:
    """c_t = Σ_s α_ts h_s with α = softmax(β v · tanh(q_t + k_s)) over the mask; heads side by side share values.

    Cost: T·S·D hyperbolic tangents and as many numbers in memory, per sentence.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), equations 5 and 6, with everything already projected.

    >>> query, keys, values = torch.zeros(1, 2, 4, 3), torch.zeros(1, 5, 4, 3), torch.ones(1, 5, 1, 6)
    >>> additive_attention(query, keys, torch.ones(4, 3), values).shape
    torch.Size([1, 2, 4, 6])
    """
    energies = sharpening * reference.additive_energies(query, keys, v)  # (B, H, T, S)
    weights = masked_softmax(energies, None if mask is None else mask[:, None, None])
    # n heads side by side share values: (B, G, n, T, S) × (B, S, G, V) to (B, T, G, n, V)
    context = torch.einsum("bgnts,bsgv->btgnv", weights.unflatten(1, (values.shape[2], -1)), values)
    return context.flatten(2, 3)
