"""A weighted sum behind a gate."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from regard.attention.contract import AbstractRead, Look, Source, Tree
from regard.attention.reads.weighted_sum import WeightedSum
from regard.shapes import Float


class GatedSum(AbstractRead):
    """c = β · Σ_j α_j h_j with β = σ(W q + b): how much a step needs what is looked at.

    Args:
        query_size: Q.
        memory_size: M; with several heads the gated reads stand side by side (H·M), unless `split_heads` lets each head
            read its own slice (M).
        gate: "scalar", one β for each head, or "vector", one for each feature of the context.

    Source: Xu et al. 2015 (arXiv 1502.03044), section 4.2.1: a scalar (f_β there).
    """

    sources = ("xu2015",)

    is_positionwise = True
    uses_query = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        *,
        gate: Literal["scalar", "vector"] = "scalar",
        num_heads: int = 1,
        split_heads: bool = False,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        if gate not in ("scalar", "vector"):
            raise ValueError(f"gate={gate!r} must be 'scalar' or 'vector'.")
        self.sum = WeightedSum(memory_size, num_heads=num_heads, split_heads=split_heads)
        self.context_size = self.sum.context_size
        self.num_gates = num_heads if gate == "scalar" else self.context_size
        self.gate = nn.Linear(query_size, self.num_gates)

    def refuse(self, mechanism: Any) -> str | None:
        """As the sum that is gated."""
        return self.sum.refuse(mechanism)

    def prepare(self, source: Source) -> Tree:
        """The values, a view."""
        return self.sum.prepare(source)

    def forward(self, weights: Float[Tensor, "R H S"], look: Look) -> Float[Tensor, "R V"]:
        """The context (R, M or H·M)."""
        context = self.sum(weights, look)
        opened = self.gate(look.query).sigmoid()
        return (context.unflatten(1, (self.num_gates, -1)) * opened[..., None]).flatten(1)
