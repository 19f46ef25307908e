"""Weights that are densities: not normalised over the source."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.attention.contract import AbstractAlignment, Look, Tree
from regard.shapes import Bool, Float


class ExponentialAlignment(AbstractAlignment):
    """α_j = exp(e_j), 0 outside the support: for scores that are log-densities, such as `MixtureScore`.

    A row sums to what the density puts on real positions, so to less than 1 once a mixture runs past the end.
    """

    is_normalised = False
    is_positionwise = True

    def refuse(self, mechanism: Any) -> str | None:
        """Weights that are no densities have no bound."""
        if not mechanism.window.is_bounded:
            return (
                f"{type(mechanism.window).__name__} adds a bias that has no bound, and neither has exp(e) then: "
                "ExponentialAlignment needs densities. Use SoftmaxAlignment."
            )
        if mechanism.score.is_log_density:
            return None
        return (
            f"exp(e) of a {type(mechanism.score).__name__} has no bound: ExponentialAlignment needs a score whose "
            "energies are log-densities, such as MixtureScore. Use SoftmaxAlignment."
        )

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        if support is not None:
            energies = energies.masked_fill(~support, float("-inf"))
        return energies.exp(), leaf, None
