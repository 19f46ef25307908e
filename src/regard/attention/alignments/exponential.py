"""Weights that are densities: not normalised over the source."""

from __future__ import annotations

from torch import Tensor

from regard.attention.contract import AbstractAlignment, Look, Parts, Tree
from regard.shapes import Bool, Float


class ExponentialAlignment(AbstractAlignment):
    """α_j = exp(e_j), 0 outside the support: for scores that are log-densities, such as `MixtureScore`.

    A row sums to the mass that the density has on real positions: less than 1 once a mixture moves past the end.
    """

    is_normalised = False
    is_positionwise = True

    def refuse(self, parts: Parts) -> str | None:
        """Refuses energies that are not log-densities, as their weights have no bound."""
        if not parts.window.is_bounded:
            return (
                f"{type(parts.window).__name__} adds a bias without a bound, so exp(e) has no bound either: "
                "ExponentialAlignment needs densities. Use SoftmaxAlignment."
            )
        if parts.score.is_log_density:
            return None
        return (
            f"exp(e) of a {type(parts.score).__name__} has no bound: ExponentialAlignment needs a score whose "
            "energies are log-densities, such as MixtureScore. Use SoftmaxAlignment."
        )

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        if support is not None:
            energies = energies.masked_fill(~support, float("-inf"))
        return energies.exp(), leaf, None
