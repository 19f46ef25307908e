"""A weighted sum of values and vectors for offsets."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.contract import AbstractRead, AbstractWrapper, Look
from regard.attention.offsets import OffsetVectors
from regard.attention.reads.weighted_sum import ProjectedSum
from regard.errors import ShapeError
from regard.ops.attend import weighted_sum
from regard.shapes import Float


class RelativeSum(AbstractWrapper, AbstractRead):
    """c_i = W_o [Σ_j α_ij (W_v h_j + a_{clip(j-i)})] of all heads, with a learned vector a for every offset.

    Args:
        memory_size, size, num_heads, num_key_value_heads, output_size, bias: as in `ProjectedSum`.
        max_distance: k; positions farther away count as those at distance k.
        offsets: the vectors; the `offsets` of a `RelativeDotScore` let keys and values share them, as in OpenNMT-py.
            New ones if None.

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

    def forward(self, weights: Float[Tensor, "R H S"], look: Look) -> Float[Tensor, "R V"]:
        """The context (R, output_size)."""
        zeros = weights.new_zeros(*weights.shape[:2], len(self.offsets.vectors))
        offset_weights = zeros.scatter_add(2, self.offsets.index(look.position, weights), weights)
        sums = torch.einsum("rhc,cv->rhv", offset_weights, self.offsets.vectors).flatten(1)
        return self.values.finish(weighted_sum(weights, look.memory.read) + sums, weights, look.query)
