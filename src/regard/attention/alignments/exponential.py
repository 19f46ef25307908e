"""Weights that are densities: not normalised over the source."""

from __future__ import annotations

from torch import Generator, Tensor

from regard.attention.contract import AbstractAlignment, Memory, Tree
from regard.shapes import Bool, Float, Int


class ExponentialAlignment(AbstractAlignment):
    """α_j = exp(e_j), 0 outside the support: for scores that are log-densities, such as `MixtureScore`.

    A row sums to what the density puts on real positions, so to less than 1 once a mixture runs past the end.
    """

    is_normalised = False

    def forward(
        self,
        energies: Float[Tensor, "R H S"],
        support: Bool[Tensor, "R G S"] | None,
        query: Float[Tensor, "R Q"],
        memory: Memory,
        leaf: Tree,
        position: Int[Tensor, " R"],
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        if support is not None:
            energies = energies.masked_fill(~support, float("-inf"))
        return energies.exp(), leaf, None
