"""A weighted sum with a gate."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from regard.attention.contract import AbstractRead, AbstractWrapper, Look
from regard.attention.reads.weighted_sum import WeightedSum
from regard.layers.linear import Linear
from regard.shapes import Float


class GatedSum(AbstractWrapper, AbstractRead):
    """c = β · Σ_j α_j h_j with a gate β = σ(W q + b), which says how much a step needs the context.

    Args:
        query_size: Q.
        memory_size: M; the contexts of several heads are concatenated (H·M), unless `split_heads` lets each head read
            its own slice (M).
        gate: "scalar", a β for each head, or "vector", a β for each feature of the context.

    Source: Xu et al. 2015 (arXiv 1502.03044), section 4.2.1: a scalar (f_β there).
    """

    sum: WeightedSum
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
        super().__init__(WeightedSum(memory_size, num_heads=num_heads, split_heads=split_heads), "sum")
        self.query_size = query_size
        if gate not in ("scalar", "vector"):
            raise ValueError(f"gate={gate!r} must be 'scalar' or 'vector'.")
        self.num_gates = num_heads if gate == "scalar" else self.context_size
        self.gate = Linear(query_size, self.num_gates)

    def forward(self, weights: Float[Tensor, "R H S"], look: Look) -> Float[Tensor, "R V"]:
        """The context (R, M or H·M)."""
        return self.finish(self.sum(weights, look), weights, look.query)

    @property
    def is_sum(self) -> bool:  # type: ignore[override]
        """Whether the other read is one."""
        return self.sum.is_sum

    def finish(
        self, sums: Float[Tensor, "R HV"], weights: Float[Tensor, "R ..."], query: Float[Tensor, "R Q"]
    ) -> Float[Tensor, "R V"]:
        """The sums times the gate."""
        context = self.sum.finish(sums, weights, query)
        gate = self.gate(query).sigmoid()
        return (context.unflatten(1, (self.num_gates, -1)) * gate[..., None]).flatten(1)
