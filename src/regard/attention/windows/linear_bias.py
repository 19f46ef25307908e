"""A bias that grows linearly with the distance."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.windows.bias import AbstractBias
from regard.shapes import Float, Int


class LinearBiasWindow(AbstractBias):
    """ALiBi: e_ij - m_h |i - j|, with a slope m_h for each head.

    With n heads, n a power of two, head h = 1 … n has the slope 2^{-8h/n}. Otherwise let p be the largest power of two
    below n: the first p heads have the slopes of p heads, the others every second slope of 2p heads. Nothing is
    learned.

    Args:
        num_heads: H of the score, or 1 for one slope, 2^{-8}.

    Source: Press, Smith & Lewis 2022 (arXiv 2108.12409), section 3, and the authors' code for other numbers of heads;
    encoders use |i - j| for positions after the query, too.

    >>> LinearBiasWindow(3).slopes(torch.float32)
    tensor([0.0625, 0.0039, 0.2500])
    """

    sources = ("press2022",)

    def slopes(self, dtype: torch.dtype, device: torch.device | None = None) -> Float[Tensor, " H"]:
        """m_h."""
        power = 1 << (self.num_heads.bit_length() - 1)
        head = torch.arange(self.num_heads, dtype=dtype, device=device)
        fraction = torch.where(head < power, (head + 1) / power, (head - power + 0.5) / power)
        return torch.exp2(-8 * fraction)

    def bias(self, offset: Int[Tensor, "R G W"], dtype: torch.dtype) -> Float[Tensor, "R H W"]:
        """-m_h |j - i|, not below half of the lowest finite number of the type."""
        wide = torch.promote_types(dtype, torch.float32)
        bias = -self.slopes(wide, offset.device)[:, None] * offset.abs().to(wide)
        return bias.clamp(min=torch.finfo(dtype).min / 2).to(dtype)
