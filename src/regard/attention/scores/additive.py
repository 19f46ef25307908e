"""The additive score of Bahdanau, its form by Luong (`concat`), and pooling by a learned context vector."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard import ops
from regard.attention.contract import AbstractScore, Comparison, Source, StepInputs, Tree
from regard.attention.sizes import head_size, share, split
from regard.layers.linear import Linear
from regard.ops import over_steps
from regard.shapes import Float, merge_rows, num_hypotheses


class AdditiveScore(AbstractScore):
    """e_j = vᵀ tanh(W q + U h_j), or with `normalised` e_j = g · vᵀ/‖v‖ tanh(W q + U h_j + b).

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together; each head has its own v over its own slice.
        normalised: weight normalisation of v (Salimans & Kingma 2016): g starts at √(1 / size), b at 0.
        bias: whether there is a bias b inside the tanh, without `normalised`.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), A.1.2 (v_a, W_a, U_a there); normalised: Raffel et al. 2017
    (arXiv 1704.00784), section 2.4, and tf.contrib.seq2seq.
    """

    is_positionwise = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        normalised: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.sources = ("bahdanau2015", "raffel2017") if normalised else ("bahdanau2015",)
        width = head_size(size, num_heads)
        self.query_projection = Linear(query_size, size, bias=bias or normalised)
        self.key_projection = Linear(memory_size, size, bias=False)
        self.v = nn.Parameter(torch.empty(num_heads, width))
        self.gain = nn.Parameter(torch.full((num_heads, 1), width**-0.5)) if normalised else None
        nn.init.xavier_uniform_(self.query_projection.weight)
        nn.init.xavier_uniform_(self.key_projection.weight)
        if self.query_projection.bias is not None:
            nn.init.zeros_(self.query_projection.bias)
        nn.init.uniform_(self.v, -(width**-0.5), width**-0.5)

    @property
    def direction(self) -> Float[Tensor, "H D"]:
        """v, or g · v / ‖v‖."""
        return self.v if self.gain is None else over_steps.once(_normalised, self.v, self.gain)

    def prepare(self, source: Source) -> Tree:
        """U h, split into heads."""
        return split(self.key_projection(source.keys), self.num_heads)

    def comparison(self) -> Comparison:
        return Comparison("additive", self.query_projection, v=self.direction)

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        query, keys = self._project(inputs)
        energies = ops.additive_energies(query, keys, self.direction)
        return merge_rows(energies.transpose(1, 2)), state

    def locate(
        self,
        inputs: StepInputs,
        past: Float[Tensor, "R H C *positions"],
        filters: Float[Tensor, "H F C *widths"],
        projection: Float[Tensor, "H F D"],
    ) -> Float[Tensor, "R H S"]:
        """Energies that also depend on earlier weights: e_j = vᵀ tanh(W q + U h_j + L f_j + b) with f = F * past."""
        query, keys = self._project(inputs)
        past = past.unflatten(0, query.shape[:2])
        return ops.location_energies(query, keys, past, filters, projection, self.direction).flatten(0, 1)

    def _project(self, inputs: StepInputs) -> tuple[Float[Tensor, "B K H D"], Float[Tensor, "B S H D"]]:
        """W q, grouped by sentence, and U h."""
        keys = inputs.memory.score
        return share(split(self.query_projection(inputs.query), self.num_heads), keys), keys


def _normalised(v: Tensor, gain: Tensor) -> Tensor:
    return gain * v / v.norm(dim=-1, keepdim=True)


class ConcatScore(AbstractScore):
    """e_j = vᵀ tanh(W [q; h_j]).

    This is an additive score whose maps of query and memory are the halves of one matrix (size, Q + M), initialised
    together.

    Args:
        query_size, memory_size, size, num_heads: as in `AdditiveScore`.

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1, `concat`.
    """

    sources = ("luong2015",)
    is_positionwise = True

    def __init__(self, query_size: int, memory_size: int, size: int, *, num_heads: int = 1) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.additive = AdditiveScore(query_size, memory_size, size, num_heads=num_heads)
        bound = (6 / (query_size + memory_size + size)) ** 0.5
        nn.init.uniform_(self.additive.query_projection.weight, -bound, bound)
        nn.init.uniform_(self.additive.key_projection.weight, -bound, bound)

    def prepare(self, source: Source) -> Tree:
        """The memory's half of W, times h."""
        return self.additive.prepare(source)

    def comparison(self) -> Comparison | None:
        inner = self.additive.comparison()
        return None if inner is None else replace(inner, called=(("additive", self.additive), *inner.called))

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        return self.additive(inputs, state)


class PoolingScore(AbstractScore):
    """e_j = u_jᵀ u,  u_j = tanh(W h_j + b), with u the learned context vector.

    Args:
        memory_size: M.
        size: width of u_j, all heads together.

    Source: Yang et al. 2016 (aclanthology N16-1174), equations 5 and 6 (their u_w is our u).
    """

    sources = ("yang2016",)

    uses_query = False
    is_positionwise = True

    def __init__(self, memory_size: int, size: int, *, num_heads: int = 1) -> None:
        super().__init__()
        self.memory_size = memory_size
        self.num_heads = num_heads
        self.key_projection = Linear(memory_size, size)
        self.context_vector = nn.Parameter(torch.empty(num_heads, head_size(size, num_heads)))
        nn.init.normal_(self.context_vector, std=0.1)

    def prepare(self, source: Source) -> Tree:
        """u_j, split into heads."""
        return split(torch.tanh(self.key_projection(source.keys)), self.num_heads)

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S), the same for every hypothesis of a sentence."""
        energies = torch.einsum("bshd,hd->bhs", inputs.memory.score, self.context_vector)
        hypotheses = num_hypotheses(inputs.query.shape[0], energies.shape[0])
        return merge_rows(energies[:, None].expand(-1, hypotheses, -1, -1)), state
