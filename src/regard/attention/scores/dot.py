"""Dot-product scores: of query and memory themselves, bilinear, of projections, bounded, and of unit length."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.attention.contract import AbstractContentScore, AbstractScore, Comparison, Source, StepInputs, Tree
from regard.attention.sizes import group_size, head_size, split
from regard.errors import ShapeError
from regard.layers.linear import Linear
from regard.ops.attend import dot_energies
from regard.shapes import Float


class DotScore(AbstractScore):
    """e_j = g · qᵀh_j, without projections.

    Args:
        query_size, memory_size: Q and M, which must be equal; each head compares its own slice of Q / num_heads.
        scale: g, a fixed number; None learns it, initially 1.

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1, `dot`; the learned g is tf.contrib.seq2seq's
    `scale=True`.
    """

    sources = ("luong2015",)
    is_positionwise = True

    def __init__(self, query_size: int, memory_size: int, *, num_heads: int = 1, scale: float | None = 1.0) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        if query_size != memory_size:
            raise ShapeError(
                f"A dot score compares query and memory without projections: query_size={query_size} and "
                f"memory_size={memory_size} must be equal. Use the bilinear score ('general') for different sizes."
            )
        head_size(query_size, num_heads, "query_size")
        self.num_heads = num_heads
        self.scale: float | nn.Parameter = nn.Parameter(torch.ones(())) if scale is None else scale

    def prepare(self, source: Source) -> Tree:
        """The keys, split into heads."""
        return split(source.keys, self.num_heads)

    def project(self, query: Float[Tensor, "*rows Q"]) -> Float[Tensor, "*rows H D"]:
        """g q, split into heads."""
        return split(query * self.scale, self.num_heads)

    def comparison(self) -> Comparison:
        return Comparison("dot", scale=self.scale)

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        return dot_energies(self.project(inputs.query), inputs.memory.score), state


class ScaledDotScore(AbstractScore):
    """e_j = (W_q q)ᵀ(W_k h_j) / √d, with d the width of a head.

    Args:
        query_size, memory_size: Q and M.
        size: width of the queries' projection, all heads together.
        num_key_value_heads: G, the number of W_k, which adjacent heads share; one for each head if None.
        bias: whether the projections have biases.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2; fewer key-value heads: Ainslie et al. 2023
    (arXiv 2305.13245), with one for all: Shazeer 2019 (arXiv 1911.02150).
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
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.head_size, sharing = head_size(size, num_heads), group_size(num_heads, num_key_value_heads)
        self.num_heads = num_heads
        self.num_key_value_heads = num_heads // sharing
        self.sources = ("vaswani2017",) if sharing == 1 else ("vaswani2017", "ainslie2023")
        self.scale = self.head_size**-0.5
        self.query_projection = Linear(query_size, size, bias=bias)
        self.key_projection = Linear(memory_size, self.head_size * self.num_key_value_heads, bias=bias)

    def prepare(self, source: Source) -> Tree:
        """W_k h, split into key-value heads."""
        return split(self.key_projection(source.keys), self.num_key_value_heads)

    def project(self, query: Float[Tensor, "*rows Q"]) -> Float[Tensor, "*rows H D"]:
        """W_q q / √d, split into heads."""
        return split(self.query_projection(query) * self.scale, self.num_heads)

    def comparison(self) -> Comparison:
        return Comparison("dot", self.query_projection, self.scale)

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        return dot_energies(self.project(inputs.query), inputs.memory.score), state


class BilinearScore(AbstractScore):
    """e_j = g · qᵀ W h_j: a dot product with projected keys.

    Args:
        query_size, memory_size: Q and M; W is (Q, M), without bias. Each head compares its own slice.
        scale: g, a fixed number; None learns it, initially 1.

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1, `general`.
    """

    sources = ("luong2015",)
    is_positionwise = True

    def __init__(self, query_size: int, memory_size: int, *, num_heads: int = 1, scale: float | None = 1.0) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.key_projection = Linear(memory_size, query_size, bias=False)
        self.dot = DotScore(query_size, query_size, num_heads=num_heads, scale=scale)

    def prepare(self, source: Source) -> Tree:
        """W h, split into heads."""
        return self.dot.prepare(replace(source, keys=self.key_projection(source.keys)))

    def comparison(self) -> Comparison | None:
        inner = self.dot.comparison()
        return None if inner is None else replace(inner, called=(("dot", self.dot), *inner.called))

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        return self.dot(inputs, state)


class TanhDotScore(AbstractContentScore):
    """e_j = tanh(W_q q + b_q)ᵀ tanh(W_k h_j + b_k) / √d, with d the width of a head: energies lie within ±√d.

    Args:
        query_size, memory_size, size, num_heads, bias: as in `ScaledDotScore`.

    This is ESPnet's AttMultiHeadDot, and with one head and a sharpening of 2 √d its AttDot.

    Source: Chan et al. 2016 (arXiv 1508.01211), equation 9: a dot product of two networks (φ and ψ), here of one layer.
    """

    sources = ("chan2016",)

    is_positionwise = True

    def __init__(self, query_size: int, memory_size: int, size: int, *, num_heads: int = 1, bias: bool = True) -> None:
        super().__init__(ScaledDotScore(query_size, memory_size, size, num_heads=num_heads, bias=bias))

    def prepare(self, source: Source) -> Tree:
        """tanh(W_k h + b_k), split into heads."""
        return torch.tanh(self.content.prepare(source))

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        bounded = torch.tanh(self.content.query_projection(inputs.query)) * self.content.scale
        return dot_energies(split(bounded, self.num_heads), inputs.memory.score), state


class NormalisedDotScore(AbstractContentScore):
    """e_j = g · (W_q q / ‖W_q q‖)ᵀ (W_k h_j / ‖W_k h_j‖), with the norms of each head and a learned g for all heads.

    No energy is above g, however large the weights are. Initially g = log₂(L² - L), for sources of about L positions.

    Args:
        query_size, memory_size, size, num_heads, num_key_value_heads, bias: as in `ScaledDotScore`.
        length: L; the paper takes the 97.5th percentile of the lengths.

    Source: Henry et al. 2020 (arXiv 2010.04245), section 3.
    """

    sources = ("henry2020",)
    is_positionwise = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_key_value_heads: int | None = None,
        length: int = 50,
        bias: bool = False,
    ) -> None:
        content = ScaledDotScore(
            query_size, memory_size, size, num_heads=num_heads, num_key_value_heads=num_key_value_heads, bias=bias
        )
        super().__init__(content)
        self.head_size = self.content.head_size
        self.gain = nn.Parameter(torch.tensor(math.log2(max(length, 2) ** 2 - max(length, 2))))

    def prepare(self, source: Source) -> Tree:
        """W_k h of length 1, split into key-value heads."""
        return _unit(self.content.prepare(source))

    def project(self, query: Float[Tensor, "*rows Q"]) -> Float[Tensor, "*rows H D"]:
        """W_q q of length g, split into heads."""
        return self._normalised(self.content.project(query))

    def comparison(self) -> Comparison:
        return Comparison(
            "dot",
            self.content.query_projection,
            called=(("content", self.content),),
            rotate=lambda query, positions: self._normalised(query),
        )

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        return dot_energies(self.project(inputs.query), inputs.memory.score), state

    def _normalised(self, query: Float[Tensor, "*rows H D"]) -> Float[Tensor, "*rows H D"]:
        """Queries of length g."""
        return self.gain.to(query.dtype) * _unit(query)


def _unit(x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
    """x / ‖x‖, zeros for zeros; in float32 at least, and divided by its largest element before squaring."""
    wide = x.float() if x.element_size() < 4 else x
    largest = wide.detach().abs().amax(-1, keepdim=True).clamp(min=torch.finfo(wide.dtype).tiny)
    return normalize(wide / largest, dim=-1).to(x.dtype)
