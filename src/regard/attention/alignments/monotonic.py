"""Monotonic alignment: a reader that never goes back."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Generator, Tensor, nn

from regard import ops
from regard.attention.beginning import first_alignment
from regard.attention.contract import AbstractAlignment, Memory, Tree
from regard.errors import UnsupportedError
from regard.shapes import Bool, Float, Int

Hard = Literal["never", "evaluation", "always"]
Remaining = Literal["lost", "last"]


class MonotonicAlignment(AbstractAlignment):
    """From where it stopped last, a reader passes positions from left to right and stops at one.

    p_ij = σ(e_ij + r + ε_ij) is the probability of stopping at j once there, and α_i is where it stops in expectation
    (`ops.expected_monotonic_alignment`), or with `hard` the first position with p > 1/2
    (`ops.hard_monotonic_alignment`). It starts at the first position; those outside the support are passed.

    Args:
        num_heads: H, every head reads by itself.
        bias: r; below 0 the reader tends to read on. Learned from there, for all heads, unless `learned_bias` is off.
        noise: the deviation of the normal ε, in training alone; it makes p come near 0 and 1, as `hard` needs it.
        hard: whether the reader decides: never, in evaluation, or always (then energies have no gradient).
        remaining: the probability of passing all positions is `lost`, so that a row sums to less than 1 and a hard
            reader past the end sees nothing from then on; or the `last` position of the support gets it.
        like: `tfa` expects as tensorflow-addons' mode `parallel` does, which loses mass in long sources
            (`ops.clipped_monotonic_alignment`). Its mode `recursive` is None here, its mode `hard` is hard="always".
            Its noise, which is there in evaluation too, is here in training alone.

    Source: Raffel et al. 2017 (arXiv 1704.00784), sections 2.2 to 2.5; `last`: fairseq's mass preservation.
    """

    is_recurrent = True
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
        like: Literal["tfa"] | None = None,
    ) -> None:
        super().__init__()
        if noise < 0:
            raise ValueError(f"noise={noise} is a deviation: 0 or more.")
        for name, value, known in (
            ("hard", hard, get_args(Hard)),
            ("remaining", remaining, get_args(Remaining)),
            ("like", like, ("tfa", None)),
        ):
            if value not in known:
                raise UnsupportedError(f"{name}={value!r} must be one of {', '.join(map(repr, known))}.")
        self.num_heads = num_heads
        self.bias: float | nn.Parameter = nn.Parameter(torch.tensor(float(bias))) if learned_bias else bias
        self.noise = noise
        self.hard = hard
        self.remaining = remaining
        self.like = like
        self.is_normalised = remaining == "last"
        self.is_random = noise > 0
        self.trains_differently = noise > 0 or hard == "evaluation"

    def refuse(self, mechanism: Any) -> str | None:
        """Every head has a reader."""
        if mechanism.score.num_heads == self.num_heads:
            return None
        return (
            f"There are readers for {self.num_heads} heads and the score has {mechanism.score.num_heads}: give "
            f"{type(mechanism.alignment).__name__} num_heads={mechanism.score.num_heads}."
        )

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """α_0: all mass at the first position that may be looked at, (R, H, S)."""
        return first_alignment("first", memory, num_rows, self.num_heads)

    def forward(
        self,
        energies: Float[Tensor, "R H S"],
        support: Bool[Tensor, "R G S"] | None,
        query: Float[Tensor, "R Q"],
        memory: Memory,
        leaf: Tensor,
        position: Int[Tensor, " R"],
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """α (R, H, S), which is the leaf too."""
        working = energies.to(torch.promote_types(energies.dtype, torch.float32)) + self.bias
        if self.training and self.noise > 0:
            drawn = torch.randn(working.shape, generator=generator, dtype=working.dtype, device=working.device)
            working = working + self.noise * drawn
        decides = self.hard == "always" or (self.hard == "evaluation" and not self.training)
        choose = (working > 0).to(working.dtype) if decides else torch.sigmoid(working)
        if support is not None:
            choose = choose.masked_fill(~support, 0)
        if decides:
            stops = ops.hard_monotonic_alignment(choose, leaf)
        elif self.like == "tfa":
            stops = ops.clipped_monotonic_alignment(choose, leaf)
        else:
            stops = ops.expected_monotonic_alignment(choose, leaf)
        if self.remaining == "last":
            stops = stops + (1 - stops.sum(-1, keepdim=True)).clamp(min=0) * last_of(support, stops)
        stops = stops.to(leaf.dtype)
        return stops, stops, None


def last_of(support: Bool[Tensor, "R G S"] | None, like: Float[Tensor, "R H S"]) -> Float[Tensor, "R G S"]:
    """1 at the last position of every row's support, else 0.

    >>> last_of(torch.tensor([[[True, True, False]]]), torch.zeros(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if support is None:
        support = torch.ones_like(like[:, :1], dtype=torch.bool)
    return (support & (support.flip(-1).cumsum(-1).flip(-1) == 1)).to(like.dtype)
