"""An alignment that treats padding as source, for models that were trained this way."""

from __future__ import annotations

from torch import Tensor

from regard.attention.contract import AbstractAlignment, AbstractWrapper, Look, Tree
from regard.shapes import Bool, Float


class UnmaskedAlignment(AbstractWrapper, AbstractAlignment):
    """Another alignment over all positions, including padding; then positions outside the support get a fixed weight.

    Nothing is renormalised, so the weights of a sentence depend on how far it is padded. This breaks the library's
    invariants about padding: use it only for models that were trained with Coqui TTS.

    Args:
        alignment: the other alignment, which is called without a support.
        outside: the weight of positions outside the support.
    """

    alignment: AbstractAlignment
    is_normalised = False

    def __init__(self, alignment: AbstractAlignment, *, outside: float = 1e-8) -> None:
        super().__init__(alignment, "alignment")
        self.outside = outside

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        weights, leaf, auxiliary = self.alignment(energies, None, look, leaf)
        return weights if support is None else weights.masked_fill(~support, self.outside), leaf, auxiliary
