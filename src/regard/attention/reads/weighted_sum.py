"""Reading by a weighted sum."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.contract import AbstractRead, Look, Parts, Source, Tree
from regard.attention.heads import group_size, head_size, refuse_heads, split
from regard.layers.linear import Linear
from regard.ops.attend import weighted_sum
from regard.shapes import Float


class WeightedSum(AbstractRead):
    """c = Σ_j α_j h_j.

    Args:
        memory_size: M; each of several heads reads all of h_j and their contexts are concatenated (H·M), as in Vinyals
            et al. 2015, unless `split_heads` lets each head read its own slice (M).

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), equation 5.
    """

    is_positionwise = True
    is_sum = True

    def __init__(self, memory_size: int, *, num_heads: int = 1, split_heads: bool = False) -> None:
        super().__init__()
        self.memory_size = memory_size
        self.num_heads = num_heads if split_heads else 1
        self.num_reads = num_heads
        if split_heads:
            head_size(memory_size, num_heads, "memory_size")
        self.context_size = memory_size if split_heads else memory_size * num_heads

    def refuse(self, parts: Parts) -> str | None:
        """Refuses a score that has another number of heads, as the context would not have `context_size`."""
        return refuse_heads(parts, self.num_reads, "WeightedSum reads for")

    def prepare(self, source: Source) -> Tree:
        """The values, a view."""
        return split(source.values, self.num_heads)

    def forward(self, weights: Float[Tensor, "R H S"], look: Look) -> Float[Tensor, "R V"]:
        """The context (R, M or H·M)."""
        return weighted_sum(weights, look.memory.read)


class ProjectedSum(AbstractRead):
    """c = W_o [Σ_j α¹_j W¹_v h_j; …; Σ_j α^H_j W^H_v h_j]: the read of multi-head attention.

    Args:
        memory_size: M.
        size: width of the heads' reads, all heads together.
        num_key_value_heads: G, how many W_v there are; adjacent heads share one. Each head has its own if None.
        output_size: width of the context, `size` if None.
        bias: whether W_v and W_o have biases; a row without weights gets zeros all the same.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.2; fewer key-value heads: Ainslie et al. 2023
    (arXiv 2305.13245).
    """

    is_positionwise = True
    is_sum = True

    def __init__(
        self,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        output_size: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.memory_size = memory_size
        width, sharing = head_size(size, num_heads), group_size(num_heads, num_key_value_heads)
        self.num_heads = num_heads
        self.num_key_value_heads = num_heads // sharing
        self.sources = ("vaswani2017",) if sharing == 1 else ("vaswani2017", "ainslie2023")
        self.context_size = output_size or size
        self.value_projection = Linear(memory_size, width * self.num_key_value_heads, bias=bias)
        self.output_projection = Linear(size, self.context_size, bias=bias)

    def refuse(self, parts: Parts) -> str | None:
        """Refuses a score that has another number of heads."""
        return refuse_heads(parts, self.num_heads, "ProjectedSum joins")

    def prepare(self, source: Source) -> Tree:
        """W_v h, split into key-value heads."""
        return split(self.value_projection(source.values), self.num_key_value_heads)

    def forward(self, weights: Float[Tensor, "R H S"], look: Look) -> Float[Tensor, "R V"]:
        """The context (R, output_size)."""
        return self.finish(weighted_sum(weights, look.memory.read), weights, look.query)

    def finish(
        self, sums: Float[Tensor, "R HV"], weights: Float[Tensor, "R ..."], query: Float[Tensor, "R Q"]
    ) -> Float[Tensor, "R V"]:
        """W_o times the sums of all heads."""
        context = self.output_projection(sums)
        if type(self.output_projection) in (Linear, nn.Linear) and self.output_projection.bias is None:
            return context
        return context.masked_fill(~(weights != 0).flatten(1).any(1, keepdim=True), 0)
