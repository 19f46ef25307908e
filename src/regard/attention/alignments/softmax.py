"""Softmax, with sharpening."""

from __future__ import annotations

from torch import Tensor

from regard import ops
from regard.attention.alignments.sharpening import checked, sharpen
from regard.attention.contract import AbstractAlignment, Look, Tree
from regard.shapes import Bool, Float


class SoftmaxAlignment(AbstractAlignment):
    """α_j = exp(β e_j) / Σ_k exp(β e_k) over the support.

    Args:
        sharpening: β; above 1 the weights are more peaked.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), equation 6; sharpening: Chorowski et al. 2015
    (arXiv 1506.07503), section 2.3.
    """

    is_positionwise = True

    def __init__(self, *, sharpening: float = 1.0) -> None:
        super().__init__()
        self.sharpening = checked(sharpening)

    @property
    def softmax_factor(self) -> float:
        """β."""
        return float(self.sharpening)

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        return ops.masked_softmax(sharpen(energies, self.sharpening), support), leaf, None
