"""Mixtures of densities that move along the source."""

from __future__ import annotations

from dataclasses import replace

import torch

from regard import attention as a
from regard.interop.coqui import SigmoidMixtureScore, UnmaskedAlignment
from support.cases.case import MechanismCase, PartCase, of_recipe


def _narrow(heads: int) -> SigmoidMixtureScore:
    """Components so narrow that rounding does not decide which position has the largest weight."""
    score = SigmoidMixtureScore(6, num_heads=heads, num_components=2, dropout=0.0)
    with torch.no_grad():
        score.parameters_of_mixture.bias.view(heads, 3, 2)[:, 1] = 0.0
    return score


CASES: tuple[MechanismCase, ...] = (
    of_recipe("gmm", a.gmm, (a.MixtureScore, a.ExponentialAlignment), size=4, num_components=2),
    of_recipe("gmm, 2 heads", a.gmm, (a.MixtureScore, a.ExponentialAlignment), size=4, num_components=3, num_heads=2),
    of_recipe("gmm, as Graves", a.gmm, (a.MixtureScore,), size=4, num_components=2, version="V0"),
    of_recipe("gmm, V1b, 2 heads", a.gmm, (a.MixtureScore,), size=4, num_components=2, version="V1b", num_heads=2),
    of_recipe("gmm, logistic", a.gmm, (a.MixtureScore,), size=4, num_components=2, family="logistic", version="V2"),
    replace(
        of_recipe(
            "gmm, as coqui",
            a.gmm,
            (SigmoidMixtureScore, UnmaskedAlignment),
            num_components=2,
            like="coqui",
        ),
        exempt=dict.fromkeys(("padding_gets_exactly_zero", "row_without_support_is_zero"), "padding gets 1e-8"),
    ),
    MechanismCase(
        "sigmoid mixture, 2 heads",
        (SigmoidMixtureScore,),
        lambda: a.Mechanism(
            SigmoidMixtureScore(5, num_heads=2, num_components=2, dropout=0.0),
            a.ExponentialAlignment(),
            a.WeightedSum(6, num_heads=2),
        ),
    ),
)

PARTS: tuple[PartCase, ...] = (
    PartCase(
        "mixture", "score", lambda heads: a.MixtureScore(6, 4, num_heads=heads, num_components=2, initial_width=1.0)
    ),
    PartCase(
        "logistic mixture",
        "score",
        lambda heads: a.MixtureScore(
            6, 4, num_heads=heads, num_components=2, initial_width=0.5, family="logistic", version="V1"
        ),
    ),
    PartCase("sigmoid mixture", "score", _narrow),
    PartCase("exponential", "alignment", lambda heads: a.ExponentialAlignment()),
)
