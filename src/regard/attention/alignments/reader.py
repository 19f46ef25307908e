"""The base of readers that go from left to right and never back."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from regard.attention.beginning import first_alignment
from regard.attention.contract import AbstractAlignment, Look, Memory, Parts, Tree
from regard.attention.heads import refuse_heads
from regard.errors import UnsupportedError
from regard.shapes import Bool, Float

Hard = Literal["never", "evaluation", "always"]
Remaining = Literal["lost", "last"]


class AbstractReader(AbstractAlignment):
    """A reader that begins at the first position and decides at each with p_ij = σ(e_ij + r + ε_ij).

    Args:
        num_heads: H; each head reads by itself.
        bias: r; with `learned_bias` it is the initial value, shared by all heads.
        noise: the standard deviation of the normal ε, only in training; it drives p towards 0 and 1, which `hard`
            needs.
        hard: when p is rounded to 0 or 1: never, in evaluation, or always (then energies have no gradient).
        remaining: the probability of going beyond the last position is `lost`, or is given to the `last` position of
            the support.
    """

    is_recurrent = True

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
        super().__init__()
        if noise < 0:
            raise ValueError(f"noise={noise} is a standard deviation: it must be 0 or more.")
        for name, value, names in (("hard", hard, get_args(Hard)), ("remaining", remaining, get_args(Remaining))):
            if value not in names:
                raise UnsupportedError(f"{name}={value!r} must be one of {', '.join(map(repr, names))}.")
        self.num_heads = num_heads
        self.bias: float | nn.Parameter = nn.Parameter(torch.tensor(float(bias))) if learned_bias else bias
        self.noise = noise
        self.hard = hard
        self.remaining = remaining
        self.is_normalised = remaining == "last"
        self.is_random = noise > 0
        self.trains_differently = noise > 0 or hard == "evaluation"

    @property
    def decides(self) -> bool:
        """Whether p is rounded to 0 or 1 in this mode."""
        return self.hard == "always" or (self.hard == "evaluation" and not self.training)

    def refuse(self, parts: Parts) -> str | None:
        """Refuses a score that has another number of heads."""
        return refuse_heads(parts, self.num_heads, f"{type(self).__name__} has readers for")

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """α_0: all mass on the first position that may be attended to, (R, H, S)."""
        return first_alignment("first", memory, num_rows, self.num_heads)

    def advance(
        self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        """α_i from p_i and α_{i-1}, 0 outside the support."""
        raise NotImplementedError

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tensor
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """α (R, H, S), which is also the leaf."""
        working = energies.to(torch.promote_types(energies.dtype, torch.float32)) + self.bias
        if self.training and self.noise > 0:
            drawn = torch.randn(working.shape, generator=look.generator, dtype=working.dtype, device=working.device)
            working = working + self.noise * drawn
        chance = (working > 0).to(working.dtype) if self.decides else torch.sigmoid(working)
        weights = self.advance(chance, leaf, support)
        if self.remaining == "last":
            weights = weights + (1 - weights.sum(-1, keepdim=True)).clamp(min=0) * last_of(support, weights)
        weights = weights.to(leaf.dtype)
        return weights, weights, None


def last_of(support: Bool[Tensor, "R G S"] | None, like: Float[Tensor, "R H S"]) -> Float[Tensor, "R G S"]:
    """1 at the last position of every row's support, else 0.

    >>> last_of(torch.tensor([[[True, True, False]]]), torch.zeros(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if support is None:
        support = torch.ones_like(like[:, :1], dtype=torch.bool)
    return (support & (support.flip(-1).cumsum(-1).flip(-1) == 1)).to(like.dtype)
