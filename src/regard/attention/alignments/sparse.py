"""Weights of which many are exactly zero: sparsemax and entmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard import ops
from regard.attention.alignments.sharpening import checked, sharpen
from regard.attention.contract import AbstractAlignment, Look, Parts, Tree
from regard.attention.heads import refuse_heads
from regard.shapes import Bool, Float


class SparsemaxAlignment(AbstractAlignment):
    """The distribution over the support that is nearest to β e: α_j = max(β e_j - τ, 0), with τ such that Σ α_j = 1.

    Args:
        sharpening: β; above 1 the weights are more peaked, and fewer are above 0.

    Source: Martins & Astudillo 2016 (arXiv 1602.02068), section 2.
    """

    sources = ("martins2016",)

    is_positionwise = True

    def __init__(self, *, sharpening: float = 1.0) -> None:
        super().__init__()
        self.sharpening = checked(sharpening)

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        return ops.sparsemax(sharpen(energies, self.sharpening), support), leaf, None


class EntmaxAlignment(AbstractAlignment):
    """α-entmax: weights max((α - 1) β e_j - τ, 0)^{1/(α - 1)} that sum to 1; softmax for α = 1, sparsemax for α = 2.

    Args:
        alpha: α, 1 or more; 1.5 is fast.
        learned: whether each head learns its own α = 1 + σ(a), between 1 and 2; `alpha` is then the initial value.
        num_heads: H, with `learned`.
        sharpening: β, a factor on the energies.

    Source: Peters, Niculae & Martins 2019 (arXiv 1905.05702); learned: Correia, Niculae & Martins 2019
    (arXiv 1909.00015), section 3.
    """

    is_positionwise = True

    def __init__(
        self, alpha: float = 1.5, *, learned: bool = False, num_heads: int = 1, sharpening: float = 1.0
    ) -> None:
        super().__init__()
        if alpha < 1 or (learned and not 1 < alpha < 2):
            between = "between 1 and 2 to be learned" if learned else "1 (softmax) or more"
            raise ValueError(f"alpha={alpha} must be {between}.")
        self.fixed_alpha = alpha
        self.num_heads = num_heads
        self.sharpening = checked(sharpening)
        self.sources = ("peters2019", "correia2019") if learned else ("peters2019",)
        start = math.log((alpha - 1) / (2 - alpha)) if learned else 0.0
        self.alpha_logits = nn.Parameter(torch.full((num_heads, 1), start)) if learned else None

    @property
    def alpha(self) -> Tensor | float:
        """α; (H, 1) if it is learned."""
        if self.alpha_logits is None:
            return self.fixed_alpha
        return 1 + self.alpha_logits.to(torch.promote_types(self.alpha_logits.dtype, torch.float32)).sigmoid()

    def refuse(self, parts: Parts) -> str | None:
        """Refuses a score that has another number of heads, if α is learned."""
        if self.alpha_logits is None:
            return None
        return refuse_heads(parts, self.num_heads, "EntmaxAlignment learns an alpha for")

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        return ops.entmax(sharpen(energies, self.sharpening), support, self.alpha), leaf, None
