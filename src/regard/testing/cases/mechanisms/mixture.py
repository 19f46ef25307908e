"""Mixtures of densities that move along the source."""

from __future__ import annotations

from regard import attention as a
from regard.testing.cases.case import MechanismCase, PartCase, of_recipe

CASES: tuple[MechanismCase, ...] = (
    of_recipe("gmm", a.gmm, (a.MixtureScore, a.ExponentialAlignment), size=4, num_components=2),
    of_recipe("gmm, 2 heads", a.gmm, (a.MixtureScore, a.ExponentialAlignment), size=4, num_components=3, num_heads=2),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("mixture", "score", lambda heads: a.MixtureScore(6, 4, num_heads=heads, num_components=2)),
    PartCase("exponential", "alignment", lambda heads: a.ExponentialAlignment()),
)
