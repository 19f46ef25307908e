"""Reading by a weighted sum."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractRead, Memory, Tree
from regard.attention.heads import head_size, split
from regard.shapes import Bool, Float, Int


def weighted_sum(weights: Float[Tensor, "R H S"], values: Float[Tensor, "B S G V"]) -> Float[Tensor, "R HV"]:
    """Σ_j α_j v_j for every head, heads side by side; values that heads share (G = 1) are read un-tiled."""
    num_heads = weights.shape[1]
    shared = weights.view(values.shape[0], -1, *weights.shape[1:]) if weights.numel() else None
    if shared is None:
        return values.new_zeros(weights.shape[0], num_heads * values.shape[-1])
    equation = "bkhs,bsv->bkhv" if values.shape[2] == 1 else "bkhs,bshv->bkhv"
    context = torch.einsum(equation, shared, values.squeeze(2) if values.shape[2] == 1 else values)
    return context.reshape(weights.shape[0], -1)


class WeightedSum(AbstractRead):
    """c = Σ_j α_j h_j.

    Args:
        memory_size: M; with several heads each reads all of h_j and the reads stand side by side (H·M), as in Vinyals
            et al. 2015, unless `split_heads` lets each head read its own slice (M).

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), equation 5.
    """

    def __init__(self, memory_size: int, *, num_heads: int = 1, split_heads: bool = False) -> None:
        super().__init__()
        self.num_heads = num_heads if split_heads else 1
        if split_heads:
            head_size(memory_size, num_heads, "memory_size")
        self.context_size = memory_size if split_heads else memory_size * num_heads

    def prepare(
        self,
        values: Float[Tensor, "B S M"],
        keys: Float[Tensor, "B S M2"],
        mask: Bool[Tensor, "B S"] | None,
        start: int = 0,
    ) -> Tree:
        """The values, a view."""
        return split(values, self.num_heads)

    def forward(
        self,
        weights: Float[Tensor, "R H S"],
        memory: Memory,
        query: Float[Tensor, "R Q"],
        position: Int[Tensor, " R"],
    ) -> Float[Tensor, "R V"]:
        """The context (R, M or H·M)."""
        return weighted_sum(weights, memory.values)


class ProjectedSum(AbstractRead):
    """c = W_o [Σ_j α¹_j W¹_v h_j; …; Σ_j α^H_j W^H_v h_j]: the read of multi-head attention.

    With `bias` W_v and W_o have biases; a row that sees nothing gets zeros all the same.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.2.
    """

    sources = ("vaswani2017",)

    def __init__(
        self, memory_size: int, size: int, *, num_heads: int = 1, output_size: int | None = None, bias: bool = False
    ) -> None:
        super().__init__()
        head_size(size, num_heads)
        self.num_heads = num_heads
        self.context_size = output_size or size
        self.value_projection = nn.Linear(memory_size, size, bias=bias)
        self.output_projection = nn.Linear(size, self.context_size, bias=bias)

    def prepare(
        self,
        values: Float[Tensor, "B S M"],
        keys: Float[Tensor, "B S M2"],
        mask: Bool[Tensor, "B S"] | None,
        start: int = 0,
    ) -> Tree:
        """W_v h, split into heads."""
        return split(self.value_projection(values), self.num_heads)

    def forward(
        self,
        weights: Float[Tensor, "R H S"],
        memory: Memory,
        query: Float[Tensor, "R Q"],
        position: Int[Tensor, " R"],
    ) -> Float[Tensor, "R V"]:
        """The context (R, output_size)."""
        context = self.output_projection(weighted_sum(weights, memory.values))
        if self.output_projection.bias is None:
            return context
        return context.masked_fill(~(weights != 0).flatten(1).any(1, keepdim=True), 0)
