"""Mixture attention."""

from __future__ import annotations

from typing import Literal, cast

from regard.attention.alignments import ExponentialAlignment, UnmaskedAlignment
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import MixtureScore, SigmoidMixtureScore
from regard.errors import UnsupportedError


def gmm(
    *,
    query_size: int,
    memory_size: int,
    size: int | None = None,
    num_components: int = 5,
    num_heads: int = 1,
    version: Literal["V0", "V1", "V2", "V1b", "V2b"] | None = None,
    family: Literal["gaussian", "logistic"] | None = None,
    like: Literal["coqui"] | None = None,
) -> Mechanism:
    """Bells that move along the source and never back: α_ij = Σ_c ω_ic N(j; μ_ic, σ_ic²), version V2b.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, 128 unless told.
        num_components: C, for each head.
        num_heads: each moves by itself; the reads stand side by side.
        version: how weights, steps and widths are made (`MixtureScore`), V2b unless told; with b, steps of 1 and widths
            of 10 to begin with. V0 is Graves', whose weights have no bound.
        family: `gaussian` unless told, or `logistic`.
        like: `coqui` (GravesAttention; `SigmoidMixtureScore`) has its own form of a logistic mixture, a hidden layer as
            wide as the query, and dropout of one half on ω̂; padding gets a weight of 10⁻⁸.

    Source: Graves 2013, Generating Sequences With Recurrent Neural Networks (arXiv 1308.0850); V2b: Battenberg et al.
    2020 (arXiv 1910.10288).
    """
    if like not in (None, "coqui"):
        raise UnsupportedError(f"like={like!r} must be 'coqui', or None.")
    read = WeightedSum(memory_size, num_heads=num_heads)
    if like == "coqui":
        for name, told in (("size", size), ("version", version), ("family", family)):
            if told is not None:
                raise UnsupportedError(f"{name}={told!r}: like='coqui' has its own, leave it out.")
        score = SigmoidMixtureScore(query_size, num_heads=num_heads, num_components=num_components)
        return Mechanism(score, UnmaskedAlignment(ExponentialAlignment()), read)
    version = version or "V2b"
    begins = version.endswith("b")
    mixture = MixtureScore(
        query_size,
        128 if size is None else size,
        num_heads=num_heads,
        num_components=num_components,
        family=family or "gaussian",
        version=cast(Literal["V0", "V1", "V2"], version.removesuffix("b")),
        initial_step=1.0 if begins else None,
        initial_width=10.0 if begins else None,
    )
    return Mechanism(mixture, ExponentialAlignment(), read)
