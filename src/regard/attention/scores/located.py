"""Additive energies of keys that differ from row to row."""

from __future__ import annotations

from torch import Tensor

from regard import ops
from regard.attention.contract import Memory
from regard.attention.heads import split
from regard.attention.scores.additive import AdditiveScore
from regard.shapes import Float, num_hypotheses


def located_energies(
    content: AdditiveScore, query: Float[Tensor, "R Q"], memory: Memory, located: Float[Tensor, "R S H D"]
) -> Float[Tensor, "R H S"]:
    """e_j = vᵀ tanh(W q + U h_j + located_j + b), where a row says something of its own about every position.

    Cost: keys of every row instead of every sentence, R · S · H · D numbers.
    """
    hypotheses = num_hypotheses(query.shape[0], memory.keys.shape[0])
    keys = (memory.keys[:, None] + located.unflatten(0, (memory.keys.shape[0], hypotheses))).flatten(0, 1)
    projected = split(content.query_projection(query), content.num_heads)
    return ops.additive_energies(projected[:, None], keys, content.direction)[:, :, 0]
