"""Mixture attention."""

from __future__ import annotations

from typing import Literal, cast

from regard.attention.alignments import ExponentialAlignment
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import MixtureScore
from regard.errors import UnsupportedError


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
    initial_step: float = 1.0,
    initial_width: float = 10.0,
    like: Literal["coqui"] | None = None,
) -> Mechanism:
    """Mixtures of densities that only move forward along the source: α_ij = Σ_c ω_ic N(j; μ_ic, σ_ic²).

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer.
        num_components: C, for each head.
        num_heads: each head moves by itself; the contexts are concatenated.
        version: how weights, steps and widths are computed (`MixtureScore`); with "b" biases make steps and widths
            begin as given. V0 is Graves', whose weights have no bound.
        family: of the densities.
        initial_step, initial_width: the positions of a step and the width before training, of versions with "b"; 1 and
            10 in the paper. Speech of phones in steps of two frames moves by about 0.4 positions.
        like: another implementation (`regard.attention.peers`).

    Source: Graves 2013, Generating Sequences With Recurrent Neural Networks (arXiv 1308.0850); V2b: Battenberg et al.
    2020 (arXiv 1910.10288).
    """
    begins = version.endswith("b")
    if not begins and (initial_step, initial_width) != (1.0, 10.0):
        raise UnsupportedError(f"initial_step and initial_width have no effect on version={version!r}: use V1b or V2b.")
    if initial_step <= 0 or initial_width <= 0:
        raise ValueError(f"initial_step={initial_step} and initial_width={initial_width} must be positive.")
    mixture = MixtureScore(
        query_size,
        size,
        num_heads=num_heads,
        num_components=num_components,
        family=family,
        version=cast(Literal["V0", "V1", "V2"], version.removesuffix("b")),
        initial_step=initial_step if begins else None,
        initial_width=initial_width if begins else None,
    )
    return Mechanism(mixture, ExponentialAlignment(), WeightedSum(memory_size, num_heads=num_heads))
