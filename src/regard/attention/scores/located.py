"""Additive energies that also see what attention did before."""

from __future__ import annotations

from torch import Tensor

from regard import ops
from regard.attention.contract import Memory
from regard.attention.heads import share, split
from regard.attention.scores.additive import AdditiveScore
from regard.shapes import Float


def located_energies(
    content: AdditiveScore,
    query: Float[Tensor, "R Q"],
    memory: Memory,
    past: Float[Tensor, "R H C S"],
    filters: Float[Tensor, "H F C W"],
    projection: Float[Tensor, "H F D"],
) -> Float[Tensor, "R H S"]:
    """e_j = vᵀ tanh(W q + U h_j + L f_j + b) with f = F * past, the memory un-tiled."""
    asked = share(split(content.query_projection(query), content.num_heads), memory.keys)
    shared = past.unflatten(0, asked.shape[:2])
    return ops.location_energies(asked, memory.keys, shared, filters, projection, content.direction).flatten(0, 1)
