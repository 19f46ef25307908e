"""Gaussian mixture attention."""

from __future__ import annotations

from regard.attention.alignments import ExponentialAlignment
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import MixtureScore


def gmm(
    *, query_size: int, memory_size: int, size: int = 128, num_components: int = 5, num_heads: int = 1
) -> Mechanism:
    """Gaussians that move along the source and never back: α_ij = Σ_c ω_ic N(j; μ_ic, σ_ic²), version V2b.

    Source: Graves 2013, Generating Sequences With Recurrent Neural Networks (arXiv 1308.0850); V2b: Battenberg et al.
    2020 (arXiv 1910.10288).
    """
    return Mechanism(
        MixtureScore(query_size, size, num_heads=num_heads, num_components=num_components),
        ExponentialAlignment(),
        WeightedSum(memory_size, num_heads=num_heads),
    )
