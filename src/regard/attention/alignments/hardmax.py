"""All of the weight on one position."""

from __future__ import annotations

from torch import Tensor

from regard import ops
from regard.attention.contract import AbstractAlignment, Look, Tree
from regard.shapes import Bool, Float


class HardmaxAlignment(AbstractAlignment):
    """α_j = 1 where e_j is the largest in the support (the first of equal ones), 0 elsewhere.

    The weights have no gradient, so the score learns nothing from the context, as with tf.contrib.seq2seq's
    `probability_fn="hardmax"`. With `straight_through` it learns as if the weights were softmax(e).

    Args:
        straight_through: whether gradients are those of softmax(e) instead of the true ones, zero.

    Source: straight-through: Bengio, Léonard & Courville 2013 (arXiv 1308.3432), section 3.
    """

    is_positionwise = True

    def __init__(self, *, straight_through: bool = False) -> None:
        super().__init__()
        self.straight_through = straight_through
        self.sources = ("bengio2013",) if straight_through else ()

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        weights = ops.hardmax(energies, support)
        if self.straight_through:
            soft = ops.masked_softmax(energies, support)
            weights = weights + (soft - soft.detach())
        return weights, leaf, None
