"""Windows that allow all positions and prefer some distances."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.contract import AbstractWindow, Look, Parts, Support, Tree
from regard.attention.heads import refuse_heads
from regard.attention.windows.reach import everywhere
from regard.errors import ShapeError
from regard.shapes import Float, Int


class AbstractBias(AbstractWindow):
    """e_ij + b_h(j - i). All positions may be attended to: intersect with `CausalWindow` to hide the future.

    Args:
        num_heads: H of the score, or 1 for a bias that heads share.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ShapeError(f"num_heads={num_heads} must be 1 or more.")
        self.num_heads = num_heads

    def refuse(self, parts: Parts) -> str | None:
        """Refuses a score that has another number of heads, unless the heads share one bias."""
        return refuse_heads(parts, self.num_heads, f"{type(self).__name__} has a bias for each of", shared="a bias")

    def bias(self, offset: Int[Tensor, "R G W"], dtype: torch.dtype) -> Float[Tensor, "R H W"]:
        """b_h of offsets j - i."""
        raise NotImplementedError

    def at(self, positions: Int[Tensor, "#R #G W"], look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The prior at these positions, in the type of the values."""
        return Support(log_prior=self.bias(positions - look.position[:, None, None], look.memory.read.dtype)), leaf

    def forward(self, look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The prior (R, H, S), in the type of the values."""
        return self.at(everywhere(look.memory), look, leaf)
