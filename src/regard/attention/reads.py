"""Reads: from weights and values to a context (R, V)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractRead, AbstractWrapper, Parts, Source, StepInputs, Tree
from regard.attention.scores.relative import OffsetVectors
from regard.attention.sizes import group_size, head_size, heads_reason, split
from regard.errors import ShapeError
from regard.layers.dropout import Dropout, drops
from regard.layers.items import current
from regard.layers.linear import Linear
from regard.ops.attend import weighted_sum
from regard.shapes import Float


class WeightedSum(AbstractRead):
    """c = Σ_j α_j h_j.

    Args:
        memory_size: M.
        split_heads: each of several heads reads its own slice of h_j, so that V = M; otherwise each reads all of it and
            the contexts are concatenated, V = H·M, as in Vinyals et al. 2015.

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

    def unsupported_reason(self, parts: Parts) -> str | None:
        return heads_reason(parts, self.num_reads, "WeightedSum reads for")

    def prepare(self, source: Source) -> Tree:
        """The values, a view."""
        return split(source.values, self.num_heads)

    def forward(self, weights: Float[Tensor, "R H S"], inputs: StepInputs) -> Float[Tensor, "R V"]:
        return weighted_sum(weights, inputs.memory.read)


class ProjectedSum(AbstractRead):
    """c = W_o [Σ_j α¹_j W¹_v h_j; …; Σ_j α^H_j W^H_v h_j]: the read of multi-head attention.

    Args:
        memory_size: M.
        size: width of the heads' values, all heads together.
        num_key_value_heads: G, the number of W_v, which adjacent heads share; one for each head if None.
        output_size: width of the context, `size` if None.
        bias: whether W_v and W_o have biases; the context of a row without weights is zero nevertheless.

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

    def unsupported_reason(self, parts: Parts) -> str | None:
        return heads_reason(parts, self.num_heads, "ProjectedSum joins")

    def prepare(self, source: Source) -> Tree:
        """W_v h, split into key-value heads."""
        return split(self.value_projection(source.values), self.num_key_value_heads)

    def forward(self, weights: Float[Tensor, "R H S"], inputs: StepInputs) -> Float[Tensor, "R V"]:
        return self.finish(weighted_sum(weights, inputs.memory.read), weights, inputs.query)

    def finish(
        self, sums: Float[Tensor, "R HV"], weights: Float[Tensor, "R ..."], query: Float[Tensor, "R Q"]
    ) -> Float[Tensor, "R V"]:
        """W_o times the sums of all heads."""
        context = self.output_projection(sums)
        if type(self.output_projection) in (Linear, nn.Linear) and self.output_projection.bias is None:
            return context
        return context.masked_fill(~(weights != 0).flatten(1).any(1, keepdim=True), 0)


class GatedSum(AbstractWrapper, AbstractRead):
    """c = β · Σ_j α_j h_j with a gate β = σ(W q + b): how much a step depends on the context.

    Args:
        query_size: Q.
        memory_size, num_heads, split_heads: as in `WeightedSum`.
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

    def forward(self, weights: Float[Tensor, "R H S"], inputs: StepInputs) -> Float[Tensor, "R V"]:
        return self.finish(self.sum(weights, inputs), weights, inputs.query)

    @property
    def is_sum(self) -> bool:  # type: ignore[override]
        """Whether the other read is one."""
        return self.sum.is_sum

    def finish(
        self, sums: Float[Tensor, "R HV"], weights: Float[Tensor, "R ..."], query: Float[Tensor, "R Q"]
    ) -> Float[Tensor, "R V"]:
        context = self.sum.finish(sums, weights, query)
        gate = self.gate(query).sigmoid()
        return (context.unflatten(1, (self.num_gates, -1)) * gate[..., None]).flatten(1)


class RelativeSum(AbstractWrapper, AbstractRead):
    """c_i = W_o [Σ_j α_ij (W_v h_j + a_{clip(j-i)})] of all heads, with a learned vector a for every offset.

    Args:
        memory_size, size, num_heads, num_key_value_heads, output_size, bias: as in `ProjectedSum`.
        max_distance: k; positions farther away count as those at distance k.
        offsets: the vectors, if they are those of a `RelativeDotScore`, as in OpenNMT-py; new ones if None.

    Source: Shaw, Uszkoreit & Vaswani 2018 (arXiv 1803.02155), equation 3 (a^V there).
    """

    values: ProjectedSum

    def __init__(
        self,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        output_size: int | None = None,
        max_distance: int = 16,
        offsets: OffsetVectors | None = None,
        bias: bool = False,
    ) -> None:
        values = ProjectedSum(
            memory_size,
            size,
            num_heads=num_heads,
            num_key_value_heads=num_key_value_heads,
            output_size=output_size,
            bias=bias,
        )
        super().__init__(values, "values")
        width = size // num_heads
        self.offsets = OffsetVectors(max_distance, width) if offsets is None else offsets
        if self.offsets.vectors.shape[1] != width:
            raise ShapeError(
                f"The vectors of offsets have {self.offsets.vectors.shape[1]} features and the values of a head "
                f"{width} (size={size} / num_heads={num_heads}): to share them, give both the same width."
            )
        self.sources = ("shaw2018", *values.sources)

    def forward(self, weights: Float[Tensor, "R H S"], inputs: StepInputs) -> Float[Tensor, "R V"]:
        zeros = weights.new_zeros(*weights.shape[:2], len(self.offsets.vectors))
        offset_weights = zeros.scatter_add(2, self.offsets.index(inputs.position, weights), weights)
        sums = torch.einsum("rhc,cv->rhv", offset_weights, self.offsets.vectors).flatten(1)
        return self.values.finish(weighted_sum(weights, inputs.memory.read) + sums, weights, inputs.query)


class DroppedRead(AbstractWrapper, AbstractRead):
    """Another read with dropout on its weights, in training.

    The weights that a mechanism returns are not dropped. Within `layers.items.drawing` a mask is a function of item,
    step, source position and head, whatever the padding. Training has no path without weights.

    Args:
        read: the other read.
        dropout: p.

    Source: Vaswani et al. 2017, in the authors' code (tensor2tensor, `attention_dropout`).
    """

    values: AbstractRead

    def __init__(self, read: AbstractRead, *, dropout: float) -> None:
        super().__init__(read, "values")
        self.dropout = Dropout(dropout)

    @property
    def is_sum(self) -> bool:  # type: ignore[override]
        """In evaluation, whether the other read is one."""
        return not drops(self.dropout) and self.values.is_sum

    def finish(
        self, sums: Float[Tensor, "R HV"], weights: Float[Tensor, "R ..."], query: Float[Tensor, "R Q"]
    ) -> Float[Tensor, "R V"]:
        return self.values.finish(sums, weights, query)

    def forward(self, weights: Float[Tensor, "R H S"], inputs: StepInputs) -> Float[Tensor, "R V"]:
        return self.values(self._dropped(weights, inputs) if drops(self.dropout) else weights, inputs)

    def _dropped(self, weights: Float[Tensor, "R H S"], inputs: StepInputs) -> Float[Tensor, "R H S"]:
        draws = None if torch.compiler.is_compiling() else current()
        if draws is None or self.dropout not in draws.sites or not 0 < self.dropout.p < 1:
            return self.dropout(weights)
        rows, heads, positions = weights.shape
        # heads vary fastest, so that a mask does not depend on the number of positions
        mask = draws.mask_at(
            inputs.position, positions * heads, self.dropout.p, draws.sites[self.dropout], weights.dtype
        )
        return weights * mask.view(rows, positions, heads).transpose(1, 2)


__all__ = ["DroppedRead", "GatedSum", "ProjectedSum", "RelativeSum", "WeightedSum"]
