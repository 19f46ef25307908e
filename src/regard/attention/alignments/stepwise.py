"""Stepwise monotonic alignment: a reader that stays or moves on by one position."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from regard.attention.alignments.reader import AbstractReader, Hard, Remaining
from regard.shapes import Bool, Float


class StepwiseAlignment(AbstractReader):
    """α_ij = p_ij α_{i-1,j} + (1 - p_{i,j-1}) α_{i-1,j-1},  p_ij = σ(e_ij + r + ε_ij) the probability of staying.

    In every step the reader stays or moves on to the next position; it skips none. It starts at the first position.

    Args:
        num_heads: H; each head reads by itself.
        bias: the initial value of r, which is learned. The authors found training sensitive to it.
        noise: the standard deviation of the normal ε, only in training; it drives p towards 0 and 1.
        hard: when the reader takes hard decisions (it stays if p > 1/2): never, in evaluation, or always.
        remaining: the probability of going beyond the last position is given to the `last` one, or is `lost`, as in the
            paper.

    Source: He, Deng & He 2019 (arXiv 1906.00672), section 3.
    """

    sources = ("he2019",)

    def __init__(
        self,
        *,
        num_heads: int = 1,
        bias: float = 3.5,
        noise: float = 2.0,
        hard: Hard = "never",
        remaining: Remaining = "last",
    ) -> None:
        super().__init__(num_heads=num_heads, bias=bias, learned_bias=True, noise=noise, hard=hard, remaining=remaining)

    def advance(
        self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        """α_i from p_i and α_{i-1}."""
        moved = pad((1 - chance) * previous, (1, 0))[..., : previous.shape[-1]]
        weights = chance * previous + moved
        return weights if support is None else weights.masked_fill(~support, 0)
