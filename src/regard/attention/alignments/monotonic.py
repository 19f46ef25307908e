"""Monotonic alignment: a reader that never goes back."""

from __future__ import annotations

from torch import Tensor

from regard import ops
from regard.attention.alignments.reader import AbstractReader
from regard.shapes import Bool, Float


class MonotonicAlignment(AbstractReader):
    """In each step a reader goes from left to right, from where it stopped last, and stops at one position.

    p_ij = σ(e_ij + r + ε_ij) is the probability of stopping at j on arrival. α_i is the expected stop
    (`ops.expected_monotonic_alignment`), or with `hard` the first position with p > 1/2
    (`ops.hard_monotonic_alignment`). The reader starts at the first position and skips those outside the support.

    Args:
        num_heads: H; each head reads by itself.
        bias: r; below 0 the reader tends to read on. With `learned_bias` it is the initial value, shared by all heads.
        noise: the standard deviation of the normal ε, only in training; it drives p towards 0 and 1, which `hard`
            needs.
        hard: when the reader takes hard decisions: never, in evaluation, or always (then energies have no gradient).
        remaining: the probability of passing all positions is `lost`, so that a row sums to less than 1 and a hard
            reader past the end reads nothing from then on; or it is given to the `last` position of the support.

    Source: Raffel et al. 2017 (arXiv 1704.00784), sections 2.2 to 2.5; `last`: fairseq's mass preservation.
    """

    sources = ("raffel2017",)

    def advance(
        self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        """α_i: the hard or the expected stop."""
        if support is not None:
            chance = chance.masked_fill(~support, 0)
        return ops.hard_monotonic_alignment(chance, previous) if self.decides else self.expect(chance, previous)

    def expect(self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"]) -> Float[Tensor, "R H S"]:
        """α_i: the expected stop."""
        return ops.expected_monotonic_alignment(chance, previous)
