"""A read of weights of which training drops some."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.contract import AbstractRead, AbstractWrapper, Look
from regard.layers.dropout import Dropout, drops
from regard.layers.items import current
from regard.shapes import Float


class DroppedRead(AbstractWrapper, AbstractRead):
    """The context of another read, from weights of which training sets some to 0 and divides the others by 1 - p.

    The weights that a mechanism returns are not dropped. Within `layers.items.drawing` a mask is a function of item,
    step, source position and head, whatever the padding. In training the weights of all steps are computed, which one
    operation for all steps would not keep.

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
        """As the other read's."""
        return self.values.finish(sums, weights, query)

    def forward(self, weights: Float[Tensor, "R H S"], look: Look) -> Float[Tensor, "R V"]:
        """The context (R, V)."""
        return self.values(self._dropped(weights, look) if drops(self.dropout) else weights, look)

    def _dropped(self, weights: Float[Tensor, "R H S"], look: Look) -> Float[Tensor, "R H S"]:
        draws = None if torch.compiler.is_compiling() else current()
        if draws is None or self.dropout not in draws.sites or not 0 < self.dropout.p < 1:
            return self.dropout(weights)
        rows, heads, positions = weights.shape
        # heads vary fastest, so that a mask does not depend on the number of positions
        mask = draws.mask_at(look.position, positions * heads, self.dropout.p, draws.sites[self.dropout], weights.dtype)
        return weights * mask.view(rows, positions, heads).transpose(1, 2)
