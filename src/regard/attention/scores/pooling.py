"""Pooling: a memory compared with a learned context vector instead of a query."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractScore, Look, Source, Tree
from regard.attention.heads import head_size, split
from regard.layers.linear import Linear
from regard.shapes import Float, merge_rows, num_hypotheses


class PoolingScore(AbstractScore):
    """e_j = u_jᵀ u,  u_j = tanh(W h_j + b), with u the learned context vector.

    Args:
        memory_size: M.
        size: width of u_j, all heads together.

    Source: Yang et al. 2016 (aclanthology N16-1174), equations 5 and 6 (their u_w is our u).
    """

    sources = ("yang2016",)

    uses_query = False
    is_positionwise = True

    def __init__(self, memory_size: int, size: int, *, num_heads: int = 1) -> None:
        super().__init__()
        self.memory_size = memory_size
        self.num_heads = num_heads
        self.key_projection = Linear(memory_size, size)
        self.context_vector = nn.Parameter(torch.empty(num_heads, head_size(size, num_heads)))
        nn.init.normal_(self.context_vector, std=0.1)

    def prepare(self, source: Source) -> Tree:
        """u_j, split into heads."""
        return split(torch.tanh(self.key_projection(source.keys)), self.num_heads)

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S), the same for every hypothesis of a sentence."""
        energies = torch.einsum("bshd,hd->bhs", look.memory.score, self.context_vector)
        hypotheses = num_hypotheses(look.query.shape[0], energies.shape[0])
        return merge_rows(energies[:, None].expand(-1, hypotheses, -1, -1)), leaf
