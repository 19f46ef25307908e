"""Monotonic alignment: a reader that never goes back."""

from __future__ import annotations

from torch import Tensor

from regard import ops
from regard.attention.alignments.reader import AbstractReader, Hard, Remaining
from regard.shapes import Bool, Float


class MonotonicAlignment(AbstractReader):
    """From where it stopped last, a reader passes positions from left to right and stops at one.

    p_ij = σ(e_ij + r + ε_ij) is the probability of stopping at j once there, and α_i is where it stops in expectation
    (`ops.expected_monotonic_alignment`), or with `hard` the first position with p > 1/2
    (`ops.hard_monotonic_alignment`). It starts at the first position; those outside the support are passed.

    Args:
        num_heads: H, every head reads by itself.
        bias: r; below 0 the reader tends to read on. Learned from there, for all heads, unless `learned_bias` is off.
        noise: the deviation of the normal ε, only in training; it makes p come near 0 and 1, as `hard` needs it.
        hard: whether the reader decides: never, in evaluation, or always (then energies have no gradient).
        remaining: the probability of passing all positions is `lost`, so that a row sums to less than 1 and a hard
            reader past the end sees nothing from then on; or the `last` position of the support gets it.

    Source: Raffel et al. 2017 (arXiv 1704.00784), sections 2.2 to 2.5; `last`: fairseq's mass preservation.
    """

    sources = ("raffel2017",)

    def __init__(
        self,
        *,
        num_heads: int = 1,
        bias: float = -1.0,
        learned_bias: bool = True,
        noise: float = 0.0,
        hard: Hard = "never",
        remaining: Remaining = "lost",
    ) -> None:
        super().__init__(
            num_heads=num_heads, bias=bias, learned_bias=learned_bias, noise=noise, hard=hard, remaining=remaining
        )

    def advance(
        self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        """Where the reader stops."""
        if support is not None:
            chance = chance.masked_fill(~support, 0)
        return ops.hard_monotonic_alignment(chance, previous) if self.decides else self.expect(chance, previous)

    def expect(self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"]) -> Float[Tensor, "R H S"]:
        """Where the reader stops in expectation."""
        return ops.expected_monotonic_alignment(chance, previous)
