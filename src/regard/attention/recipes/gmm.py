"""Mixture attention."""

from __future__ import annotations

from typing import Literal, cast

from regard.attention.alignments import ExponentialAlignment
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import MixtureScore


@imitable
def gmm(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    num_components: int = 5,
    num_heads: int = 1,
    version: Literal["V0", "V1", "V2", "V1b", "V2b"] = "V2b",
    family: Literal["gaussian", "logistic"] = "gaussian",
    like: Literal["coqui"] | None = None,
) -> Mechanism:
    """Mixtures of densities that only move forward along the source: α_ij = Σ_c ω_ic N(j; μ_ic, σ_ic²).

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer.
        num_components: C, for each head.
        num_heads: each head moves by itself; the contexts are concatenated.
        version: how weights, steps and widths are computed (`MixtureScore`); with "b" biases make them start
            with steps of 1 and widths of 10. V0 is Graves', whose weights have no bound.
        family: of the densities.
        like: another implementation (`regard.attention.peers`).

    Source: Graves 2013, Generating Sequences With Recurrent Neural Networks (arXiv 1308.0850); V2b: Battenberg et al.
    2020 (arXiv 1910.10288).
    """
    begins = version.endswith("b")
    mixture = MixtureScore(
        query_size,
        size,
        num_heads=num_heads,
        num_components=num_components,
        family=family,
        version=cast(Literal["V0", "V1", "V2"], version.removesuffix("b")),
        initial_step=1.0 if begins else None,
        initial_width=10.0 if begins else None,
    )
    return Mechanism(mixture, ExponentialAlignment(), WeightedSum(memory_size, num_heads=num_heads))
