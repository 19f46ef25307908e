"""A bias against distance."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention.contract import AbstractWindow, Memory, Support, Tree
from regard.attention.offsets import offsets
from regard.errors import ShapeError
from regard.shapes import Float, Int


class LinearBiasWindow(AbstractWindow):
    """ALiBi: e_ij - m_h |i - j|, with a slope m_h for each head.

    Of n heads, n a power of two, head h = 1 … n has the slope 2^{-8h/n}; otherwise the heads beyond the last power of
    two below n have every second slope of twice as many heads. All positions may be looked at: intersect with
    `CausalWindow` to hide the future. Nothing is learned.

    Args:
        num_heads: H of the score, or 1 for one slope, 2^{-8}.

    Source: Press, Smith & Lewis 2022 (arXiv 2108.12409), section 3, and the authors' code for other numbers of heads;
    |i - j| for positions behind the query, too, is what encoders made of it.

    >>> LinearBiasWindow(3).slopes(torch.float32)
    tensor([0.0625, 0.0039, 0.2500])
    """

    sources = ("press2022",)

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ShapeError(f"num_heads={num_heads} must be 1 or more.")
        self.num_heads = num_heads

    def refuse(self, mechanism: Any) -> str | None:
        """Every head has its own slope."""
        return refuse_heads("slopes", self.num_heads, mechanism.score.num_heads)

    def slopes(self, dtype: torch.dtype, device: torch.device | None = None) -> Float[Tensor, " H"]:
        """m_h."""
        power = 1 << (self.num_heads.bit_length() - 1)
        head = torch.arange(self.num_heads, dtype=dtype, device=device)
        fraction = torch.where(head < power, (head + 1) / power, (head - power + 0.5) / power)
        return torch.exp2(-8 * fraction)

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tree, position: Int[Tensor, " R"]
    ) -> tuple[Support, Tree]:
        """The prior (R, H, S), in the type of the values; at least half of the lowest number."""
        dtype = memory.values.dtype
        wide = torch.promote_types(dtype, torch.float32)
        distance = offsets(position, memory.values.shape[1]).abs()[:, None].to(wide)
        bias = -self.slopes(wide, position.device)[:, None] * distance
        return Support(log_prior=bias.clamp(min=torch.finfo(dtype).min / 2).to(dtype)), leaf


def refuse_heads(what: str, own: int, heads: int) -> str | None:
    """A reason when a window has neither one of a thing nor one for each head."""
    if own in (1, heads):
        return None
    return f"The window has {what} for {own} heads and the score has {heads}: give the window num_heads={heads}, or 1."
