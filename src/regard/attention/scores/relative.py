"""Scaled dot-product scores of relative positions: learned vectors, rotations, and sinusoids."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from regard import ops
from regard.attention.contract import AbstractContentScore, Comparison, Source, StepInputs, Tree
from regard.attention.scores.dot import NormalisedDotScore, ScaledDotScore
from regard.attention.sizes import split
from regard.errors import ShapeError, UnsupportedError
from regard.layers.linear import Linear
from regard.layers.module_weights import matrix_of
from regard.layers.positions import position_angles
from regard.ops.attend import dot_energies
from regard.shapes import Float, Int


class OffsetVectors(nn.Module):
    """Learned vectors a_{j-i} for the offsets from -k to k; offsets beyond ±k share the outermost ones.

    Args:
        max_distance: k.
        size: D, the width of a head; all heads share the vectors.

    Source: Shaw, Uszkoreit & Vaswani 2018 (arXiv 1803.02155), section 3.2 (w_{-k} … w_k there).
    """

    def __init__(self, max_distance: int, size: int) -> None:
        super().__init__()
        if max_distance < 0:
            raise ShapeError(f"max_distance={max_distance} must be 0 or more.")
        self.max_distance = max_distance
        self.vectors = nn.Parameter(torch.empty(2 * max_distance + 1, size))
        nn.init.xavier_uniform_(self.vectors)

    def index(self, position: Int[Tensor, " R"], weights: Float[Tensor, "R H S"]) -> Int[Tensor, "R H S"]:
        """The index of each energy's or weight's vector, for the offset j - i with i the row's step.

        >>> OffsetVectors(1, 4).index(torch.tensor([0, 2]), torch.zeros(2, 1, 4))
        tensor([[[1, 2, 2, 2]],
        <BLANKLINE>
                [[0, 0, 1, 2]]])
        """
        offset = torch.arange(weights.shape[2], device=weights.device) - position[:, None]
        return (offset.clamp(-self.max_distance, self.max_distance) + self.max_distance)[:, None].expand_as(weights)


class RelativeDotScore(AbstractContentScore):
    """e_ij = (W_q q_i)ᵀ(W_k h_j + a_{clip(j-i)}) / √d, with a learned vector a for every offset from -k to k.

    Args:
        query_size, memory_size, size, num_heads, num_key_value_heads, bias: as in `ScaledDotScore`.
        max_distance: k; positions farther away count as those at distance k.

    Source: Shaw, Uszkoreit & Vaswani 2018 (arXiv 1803.02155), equation 4 (a^K there). `RelativeSum` is the read.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        max_distance: int = 16,
        bias: bool = False,
    ) -> None:
        content = ScaledDotScore(
            query_size, memory_size, size, num_heads=num_heads, num_key_value_heads=num_key_value_heads, bias=bias
        )
        super().__init__(content)
        self.offsets = OffsetVectors(max_distance, self.content.head_size)
        self.sources = ("shaw2018", *self.content.sources)

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        projected = self.content.project(inputs.query)
        energies = dot_energies(projected, inputs.memory.score)
        offset_energies = torch.einsum("rhd,cd->rhc", projected, self.offsets.vectors)
        return energies + offset_energies.gather(2, self.offsets.index(inputs.position, energies)), state


class RotaryDotScore(AbstractContentScore):
    """RoPE: e_ij = (R_i W_q q_i)ᵀ(R_j W_k h_j) / √d, where R_t rotates pair p of a head's features by t / base^{2p/d'}.

    The energy depends on the offset only, as R_iᵀ R_j = R_{j-i}. Keys are rotated once, when they are prepared.

    Args:
        query_size, memory_size, size, num_heads, num_key_value_heads, bias: as in `ScaledDotScore`.
        layout: which features form a pair: adjacent ones (`interleaved`, as in the paper and x-transformers), or one
            of the first half and one of the second (`half`, as in Llama and GPT-NeoX). Weights that were trained with
            one layout are wrong with the other.
        base: the base of the angles.
        rotary_size: d', the number of features of a head that are rotated, the first ones; all if None.
        normalised: whether queries and keys have length 1 before they are rotated (`NormalisedDotScore`).

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
        kind = NormalisedDotScore if normalised else ScaledDotScore
        content = kind(
            query_size, memory_size, size, num_heads=num_heads, num_key_value_heads=num_key_value_heads, bias=bias
        )
        super().__init__(content)
        width = self.content.head_size
        self.rotary_size = width if rotary_size is None else rotary_size
        if self.rotary_size % 2 or not 0 < self.rotary_size <= width:
            raise ShapeError(
                f"rotary_size={self.rotary_size} must be even and at most {width}, the width of a head (size={size} / "
                f"num_heads={num_heads}): features are rotated in pairs."
            )
        if layout not in ("interleaved", "half"):
            raise UnsupportedError(f"layout={layout!r} must be 'interleaved' or 'half'.")
        self.layout: Literal["interleaved", "half"] = layout
        self.base = base
        self.sources = ("su2021", *self.content.sources)

    def prepare(self, source: Source) -> Tree:
        """R_j W_k h_j, split into key-value heads."""
        return self._rotate(self.content.prepare(source), source.positions)

    def comparison(self) -> Comparison:
        inner = self.content.comparison()
        first = inner.rotate
        rotate = self._rotate if first is None else lambda x, positions: self._rotate(first(x, positions), positions)
        inside = tuple((f"content.{name}", module) for name, module in inner.called)
        return replace(inner, called=(("content", self.content), *inside), rotate=rotate)

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        query = self._rotate(self.content.project(inputs.query), inputs.position)
        return dot_energies(query, inputs.memory.score), state

    def _rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return ops.rotate(x, position_angles(positions, self.rotary_size, self.base), self.layout)


class TransformerXLScore(AbstractContentScore):
    """e_ij = [(W_q q_i + u)ᵀ W_k h_j + (W_q q_i + v)ᵀ W_r r_{i-j}] / √d, with r the sinusoids of the offset.

    r_t = [sin(t ω_0), sin(t ω_1), …, cos(t ω_0), cos(t ω_1), …], ω_p = 10000^{-2p/P}. Offsets are signed:
    a position after the query has the opposite sines of a position equally far before it. (SpeechBrain's RelPosMHAXL
    does not distinguish the two.)

    Args:
        query_size, memory_size, size, num_heads, num_key_value_heads, bias: as in `ScaledDotScore`, the bias of W_q and
            W_k only; W_r has its own rows for every head.
        position_size: P, even; if None M, or M + 1 if M is odd, as in the paper, where both are the width of the model.

    Numerics: r_{i-j} is never built. By the addition theorem the query is rotated by i and multiplied with the
    sinusoids of j, so that no tensor is larger than the energies. Cost: S·P per head instead of the S·d of the paper's
    shifted matrix.

    Source: Dai et al. 2019 (arXiv 1901.02860), section 3.3.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        position_size: int | None = None,
        bias: bool = False,
    ) -> None:
        content = ScaledDotScore(
            query_size, memory_size, size, num_heads=num_heads, num_key_value_heads=num_key_value_heads, bias=bias
        )
        super().__init__(content)
        self.position_size = memory_size + memory_size % 2 if position_size is None else position_size
        if self.position_size < 2 or self.position_size % 2:
            raise ShapeError(f"position_size={self.position_size} must be even: sines and cosines come in pairs.")
        self.offset_projection = Linear(self.position_size, size, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(num_heads, self.content.head_size))
        self.offset_bias = nn.Parameter(torch.zeros(num_heads, self.content.head_size))
        self.sources = ("dai2019", *self.content.sources)

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        projected = self.content.project(inputs.query)
        content, offset = (projected + bias * self.content.scale for bias in (self.content_bias, self.offset_bias))
        energies = dot_energies(content, inputs.memory.score)
        return energies + self._offset_energies(offset, inputs.position, energies), state

    def _offset_energies(self, query: Tensor, position: Tensor, energies: Tensor) -> Tensor:
        """qᵀ W_r r_{i-j}: with (x, y) = W_rᵀ q, Σ x sin((i-j)ω) + y cos((i-j)ω); (x, y) is rotated by iω."""
        weight = split(matrix_of(self.offset_projection, self.position_size, query).T, self.num_heads)
        rotated = ops.rotate(
            torch.einsum("rhd,phd->rhp", query, weight), position_angles(position, self.position_size), "half"
        )
        angles = position_angles(torch.arange(energies.shape[2], device=query.device), self.position_size)
        encodings = torch.cat([-angles.sin(), angles.cos()], -1).to(query.dtype)
        return torch.einsum("rhp,sp->rhs", rotated, encodings)
