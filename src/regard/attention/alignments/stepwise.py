"""Stepwise monotonic alignment: a reader that stays, or goes on by one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from regard.attention.alignments.monotonic import Hard, Remaining, last_of
from regard.attention.beginning import first_alignment
from regard.attention.contract import AbstractAlignment, Memory, Tree
from regard.shapes import Bool, Float, Int


class StepwiseAlignment(AbstractAlignment):
    """α_ij = p_ij α_{i-1,j} + (1 - p_{i,j-1}) α_{i-1,j-1},  p_ij = σ(e_ij + r + ε_ij) the probability of staying.

    In every step the reader stays where it is or goes to the next position; none is passed over. It starts at the
    first position.

    Args:
        num_heads: H, every head reads by itself.
        bias: r, where it starts; it is learned. The authors found training sensitive to it.
        noise: the deviation of the normal ε, in training alone; it makes p come near 0 and 1.
        hard: whether the reader decides (stays where p > 1/2): never, in evaluation, or always.
        remaining: what would go beyond the last position stays at the `last` one, or is `lost`, as in the paper.

    Source: He, Deng & He 2019 (arXiv 1906.00672), section 3.
    """

    is_recurrent = True
    sources = ("he2019",)

    def __init__(
        self,
        *,
        num_heads: int = 1,
        bias: float = 3.5,
        noise: float = 2.0,
        hard: Hard = "never",
        remaining: Remaining = "last",
    ) -> None:
        super().__init__()
        if noise < 0:
            raise ValueError(f"noise={noise} is a deviation: 0 or more.")
        self.num_heads = num_heads
        self.bias = nn.Parameter(torch.tensor(float(bias)))
        self.noise = noise
        self.hard = hard
        self.remaining = remaining
        self.is_normalised = remaining == "last"
        self.is_random = noise > 0
        self.trains_differently = noise > 0 or hard == "evaluation"

    def refuse(self, mechanism: Any) -> str | None:
        """Every head has a reader."""
        if mechanism.score.num_heads == self.num_heads:
            return None
        return (
            f"There are readers for {self.num_heads} heads and the score has {mechanism.score.num_heads}: give "
            f"StepwiseAlignment num_heads={mechanism.score.num_heads}."
        )

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """α_0: all mass at the first position that may be looked at, (R, H, S)."""
        return first_alignment("first", memory, num_rows, self.num_heads)

    def forward(
        self,
        energies: Float[Tensor, "R H S"],
        support: Bool[Tensor, "R G S"] | None,
        query: Float[Tensor, "R Q"],
        memory: Memory,
        leaf: Tensor,
        position: Int[Tensor, " R"],
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """α (R, H, S), which is the leaf too."""
        working = energies.to(torch.promote_types(energies.dtype, torch.float32)) + self.bias
        if self.training and self.noise > 0:
            drawn = torch.randn(working.shape, generator=generator, dtype=working.dtype, device=working.device)
            working = working + self.noise * drawn
        decides = self.hard == "always" or (self.hard == "evaluation" and not self.training)
        stay = (working > 0).to(working.dtype) if decides else torch.sigmoid(working)
        weights = stay * leaf + pad((1 - stay) * leaf, (1, 0))[..., : leaf.shape[-1]]
        if support is not None:
            weights = weights.masked_fill(~support, 0)
        if self.remaining == "last":
            weights = weights + (1 - weights.sum(-1, keepdim=True)).clamp(min=0) * last_of(support, weights)
        weights = weights.to(leaf.dtype)
        return weights, weights, None
