"""The location-sensitive score: content, and where attention was before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard import ops
from regard.attention.contract import AbstractScore, Attended, Memory, Tree
from regard.attention.heads import split
from regard.attention.scores.additive import AdditiveScore
from regard.shapes import Bool, Float, Int, num_hypotheses


@dataclass(frozen=True, slots=True)
class Trace:
    """Where attention was: the last step's weights and the sum of all steps' weights, (R, H, S) each."""

    previous: Float[Tensor, "R H S"]
    cumulative: Float[Tensor, "R H S"]


class LocationScore(AbstractScore):
    """e_ij = vᵀ tanh(W q_i + U h_j + L f_ij + b),  f_i = F * [what attention did before].

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        location: what the filters F see: the `previous` alignment (Chorowski), the `cumulative` one (Tacotron 2), or
            `both` as two channels.
        num_filters, kernel_size: of F; each head has its own filters on its own alignments. The kernel is odd.

    The first step sees zeros.

    Source: Chorowski et al. 2015 (arXiv 1506.07503), section 2.1 (their V h_j is our U h_j, their U f our L f);
    Shen et al. 2018 (arXiv 1712.05884), section 2.2.
    """

    is_recurrent = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        location: Literal["previous", "cumulative", "both"] = "cumulative",
        num_filters: int = 32,
        kernel_size: int = 31,
    ) -> None:
        super().__init__()
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size={kernel_size} must be odd, so that a filter looks equally far both ways.")
        self.num_heads = num_heads
        self.location = location
        self.sources = ("chorowski2015",) if location == "previous" else ("chorowski2015", "shen2018")
        self.content = AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=True)
        self.filters = nn.Conv1d(
            num_heads * (2 if location == "both" else 1),
            num_heads * num_filters,
            kernel_size,
            padding=kernel_size // 2,
            groups=num_heads,
            bias=False,
        )
        self.location_projection = nn.Parameter(torch.empty(num_heads, num_filters, size // num_heads))
        nn.init.xavier_uniform_(self.location_projection)

    def prepare(
        self,
        values: Float[Tensor, "B S M"],
        keys: Float[Tensor, "B S M2"],
        mask: Bool[Tensor, "B S"] | None,
        start: int = 0,
    ) -> Tree:
        """U h, split into heads."""
        return self.content.prepare(values, keys, mask, start)

    def initial(self, memory: Memory, num_rows: int) -> Trace:
        """Zeros: attention was nowhere yet."""
        zeros = memory.values.new_zeros(num_rows, self.num_heads, memory.values.shape[1])
        return Trace(zeros, zeros)

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Trace, position: Int[Tensor, " R"]
    ) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        rows, num_positions = query.shape[0], memory.values.shape[1]
        if num_positions == 0:
            return leaf.previous, leaf
        seen = {"previous": [leaf.previous], "cumulative": [leaf.cumulative], "both": [leaf.previous, leaf.cumulative]}
        features = self.filters(torch.stack(seen[self.location], 2).flatten(1, 2)).unflatten(1, (self.num_heads, -1))
        located = torch.einsum("rhfs,hfd->rshd", features, self.location_projection)
        hypotheses = num_hypotheses(rows, memory.keys.shape[0])
        keys = (memory.keys[:, None] + located.unflatten(0, (memory.keys.shape[0], hypotheses))).flatten(0, 1)
        projected = split(self.content.query_projection(query), self.num_heads)
        heads = [
            ops.additive_energies(projected[:, None, head], keys[:, :, head], v)
            for head, v in enumerate(self.content.direction)
        ]
        return torch.cat(heads, 1), leaf

    def observe(self, leaf: Trace, attended: Attended, query: Float[Tensor, "R Q"], inputs: Tensor | None) -> Trace:
        """Remembers the step's weights and adds them up."""
        return Trace(attended.alignment, leaf.cumulative + attended.alignment)
