"""The scaled dot product of queries and keys that are rotated by their positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from regard import ops
from regard.attention.contract import AbstractScore, Comparison, Look, Source, Tree
from regard.attention.scores.dot import ScaledDotScore
from regard.attention.scores.normalised_dot import NormalisedDotScore
from regard.errors import ShapeError, UnsupportedError
from regard.layers.positions import position_angles
from regard.ops.attend import dot_energies
from regard.shapes import Float


class RotaryDotScore(AbstractScore):
    """RoPE: e_ij = (R_i W_q q_i)ᵀ(R_j W_k h_j) / √d, where R_t rotates pair p of a head's features by t / base^{2p/d'}.

    The energy depends on the offset only, as R_iᵀ R_j = R_{j-i}. Keys are rotated once, when they are prepared.

    Args:
        query_size, memory_size: Q and M.
        size: width of the queries' projection, all heads together.
        num_key_value_heads: how many heads the keys have, as in `ScaledDotScore`.
        layout: which features form a pair: adjacent ones (`interleaved`, as in the paper and x-transformers), or one
            of the first half and one of the second (`half`, as in Llama and GPT-NeoX). Weights that were trained with
            one layout are wrong with the other.
        base: the base of the angles.
        rotary_size: d', how many features of a head are rotated, the first ones; all if None.
        normalised: whether queries and keys have length 1 before they are rotated (`NormalisedDotScore`).
        bias: whether the projections have biases.

    Source: Su et al. 2021 (arXiv 2104.09864), section 3.2.2.
    """

    is_positionwise = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        layout: Literal["interleaved", "half"] = "interleaved",
        base: float = 10000.0,
        rotary_size: int | None = None,
        normalised: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        kind = NormalisedDotScore if normalised else ScaledDotScore
        self.content: ScaledDotScore | NormalisedDotScore = kind(
            query_size, memory_size, size, num_heads=num_heads, num_key_value_heads=num_key_value_heads, bias=bias
        )
        width = self.content.head_size
        self.rotary_size = width if rotary_size is None else rotary_size
        if self.rotary_size % 2 or not 0 < self.rotary_size <= width:
            raise ShapeError(
                f"rotary_size={self.rotary_size} must be even and at most {width}, the width of a head (size={size} / "
                f"num_heads={num_heads}): features are rotated in pairs."
            )
        if layout not in ("interleaved", "half"):
            raise UnsupportedError(f"layout={layout!r} must be 'interleaved' or 'half'.")
        self.num_heads = num_heads
        self.layout: Literal["interleaved", "half"] = layout
        self.base = base
        self.sources = ("su2021", *self.content.sources)

    def prepare(self, source: Source) -> Tree:
        """R_j W_k h_j, split into key-value heads; j counts from `start`."""
        positions = torch.arange(source.start, source.start + source.keys.shape[1], device=source.keys.device)
        return self._rotate(self.content.prepare(source), positions)

    def comparison(self) -> Comparison:
        """A dot product of rotated W_q q / √d and the keys."""
        inner = self.content.comparison()
        first = inner.rotate
        rotate = self._rotate if first is None else lambda x, positions: self._rotate(first(x, positions), positions)
        inside = tuple((f"content.{name}", module) for name, module in inner.called)
        return replace(inner, called=(("content", self.content), *inside), rotate=rotate)

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        return dot_energies(self._rotate(self.content.project(look.query), look.position), look.memory.score), leaf

    def _rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return ops.rotate(x, position_angles(positions, self.rotary_size, self.base), self.layout)
