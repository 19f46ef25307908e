"""Each position by itself: the sigmoid, and smoothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard import ops
from regard.attention.alignments.sharpening import checked, sharpen
from regard.attention.contract import AbstractAlignment, Look, Tree
from regard.shapes import Bool, Float


class SigmoidAlignment(AbstractAlignment):
    """α_j = σ(β e_j + r), or with `normalised` the smoothing α_j = σ(β e_j + r) / Σ_k σ(β e_k + r).

    Unlike in a softmax, one large energy does not suppress all others, and a constant added to the energies changes the
    weights.

    Args:
        normalised: whether the weights of a row are divided by their sum.
        bias: the initial value of r, which is learned; None for no r.
        sharpening: β.

    Numerics: smoothing is computed as the softmax of log σ, which neither underflows nor overflows.

    Source: smoothing: Chorowski et al. 2015 (arXiv 1506.07503), section 2.3.
    """

    is_positionwise = True

    def __init__(self, *, normalised: bool = False, bias: float | None = None, sharpening: float = 1.0) -> None:
        super().__init__()
        self.is_normalised = normalised
        self.sources = ("chorowski2015",) if normalised else ()
        self.sharpening = checked(sharpening)
        self.bias = None if bias is None else nn.Parameter(torch.tensor(float(bias)))

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        energies = sharpen(energies, self.sharpening)
        if self.bias is not None:
            energies = energies + self.bias
        if self.is_normalised:
            working = energies.to(torch.promote_types(energies.dtype, torch.float32))
            logarithms = nn.functional.logsigmoid(working)
            return ops.masked_softmax(logarithms, support).to(energies.dtype), leaf, None
        weights = energies.sigmoid()
        return weights if support is None else weights.masked_fill(~support, 0), leaf, None
