"""Pooling: a memory compared with a learned context vector instead of a query."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractScore, Memory, Tree
from regard.attention.heads import head_size, split
from regard.shapes import Bool, Float, Int, merge_rows, num_hypotheses


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
        self.key_projection = nn.Linear(memory_size, size)
        self.context_vector = nn.Parameter(torch.empty(num_heads, head_size(size, num_heads)))
        nn.init.normal_(self.context_vector, std=0.1)

    def prepare(
        self,
        values: Float[Tensor, "B S M"],
        keys: Float[Tensor, "B S M2"],
        mask: Bool[Tensor, "B S"] | None,
        start: int = 0,
    ) -> Tree:
        """u_j, split into heads."""
        return split(torch.tanh(self.key_projection(keys)), self.num_heads)

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tree, position: Int[Tensor, " R"]
    ) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S), the same for every hypothesis of a sentence."""
        energies = torch.einsum("bshd,hd->bhs", memory.keys, self.context_vector)
        hypotheses = num_hypotheses(query.shape[0], energies.shape[0])
        return merge_rows(energies[:, None].expand(-1, hypotheses, -1, -1)), leaf
