"""Coqui TTS's attention, and the parts that only it has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard import ops
from regard.attention import recipes
from regard.attention.alignments import ExponentialAlignment, TransitionAgent
from regard.attention.alignments.forward import ForwardAlignment, Progress
from regard.attention.contract import (
    AbstractAlignment,
    AbstractScore,
    AbstractWindow,
    AbstractWrapper,
    Attended,
    Look,
    Memory,
    Source,
    Tree,
)
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore
from regard.attention.scores.location import LocationScore, Trace
from regard.errors import UnsupportedError
from regard.layers import Dropout
from regard.layers.linear import Linear
from regard.shapes import Bool, Float, num_hypotheses


class UnmaskedAlignment(AbstractWrapper, AbstractAlignment):
    """Another alignment over all positions, including padding; then positions outside the support get a fixed weight.

    Nothing is renormalised, so the weights of a sentence depend on how far it is padded. This breaks the library's
    invariants about padding: use it only for models that were trained with Coqui TTS.

    Args:
        alignment: the other alignment, which is called without a support.
        outside: the weight of positions outside the support.
    """

    alignment: AbstractAlignment
    is_normalised = False

    def __init__(self, alignment: AbstractAlignment, *, outside: float = 1e-8) -> None:
        super().__init__(alignment, "alignment")
        self.outside = outside

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        weights, leaf, auxiliary = self.alignment(energies, None, look, leaf)
        return weights if support is None else weights.masked_fill(~support, self.outside), leaf, auxiliary


_STEP_BIAS, _WIDTH_BIAS = 1.0, 10.0
_MARGIN, _LEAST = 1e-5, 1e-8


class SigmoidMixtureScore(AbstractScore):
    """e_ij = log Σ_c (φ_c(j + 3/2) - φ_c(j + ½)),  φ_c(x) = ω_c / (1 + σ((μ_c - x) / s_c)).

    (ω̂, ŝ, Δ̂) = V relu(W q + b);  ω = softmax(dropout(ω̂)) + 10⁻⁵, s = softplus(ŝ) + 10⁻⁵, μ grows by softplus(Δ̂).
    A logistic distribution has exp where this has the sigmoid σ. So the weights of a row sum to about ½ at most, and
    wide components peak beyond μ; use it only for models that were trained with it. `MixtureScore(family="logistic")`
    is the correct form. A weight of 0 becomes 10⁻⁸.

    Args:
        query_size: Q, also the width of the hidden layer.
        num_components: C, for each head.
        dropout: on ω̂, in training.

    Source: `GravesAttention` of Coqui TTS, after Vasquez & Lewis 2019 (arXiv 1906.01083), section 4.
    """

    sources = ("graves2013", "vasquez2019")

    is_recurrent = True
    is_log_density = True

    def __init__(self, query_size: int, *, num_heads: int = 1, num_components: int = 5, dropout: float = 0.5) -> None:
        super().__init__()
        self.query_size = query_size
        self.num_heads = num_heads
        self.num_components = num_components
        self.hidden = Linear(query_size, query_size)
        self.parameters_of_mixture = Linear(query_size, num_heads * 3 * num_components)
        self.dropout = Dropout(dropout)
        with torch.no_grad():
            bias = self.parameters_of_mixture.bias.view(num_heads, 3, num_components)
            bias[:, 1], bias[:, 2] = _WIDTH_BIAS, _STEP_BIAS

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """μ = 0, (R, H, C)."""
        zeros = memory.read.new_zeros(num_rows, self.num_heads, self.num_components)
        return zeros.float() if zeros.element_size() < 4 else zeros

    def forward(self, look: Look, leaf: Tensor) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Logarithms of the weights (R, H, S), and the moved means."""
        raw = self.parameters_of_mixture(torch.relu(self.hidden(look.query))).to(leaf.dtype)
        weight, width, step = raw.view(-1, self.num_heads, 3, self.num_components).unbind(2)
        mean = leaf + functional.softplus(step)
        deviation = functional.softplus(width) + _MARGIN
        edges = torch.arange(look.memory.num_positions + 1, device=look.query.device, dtype=leaf.dtype) + 0.5
        passed = torch.sigmoid((mean[..., None] - edges) / deviation[..., None])
        weights = (self.dropout(weight.flatten(1)).view_as(weight).softmax(-1) + _MARGIN)[..., None] / (1 + passed)
        mass = weights.sum(2).diff(dim=-1)
        return mass.masked_fill(mass <= 0, _LEAST).log().to(look.query.dtype), mean


@dataclass(frozen=True, slots=True)
class Unmoved:
    """The leaf of `UnmovedLocationScore`.

    Args:
        trace: the last weights, and the sum of softmax(e) of all steps.
        energies: (R, H, S), e of the last step.
        mask: (R, 1, S), the memory's.
    """

    trace: Trace
    energies: Float[Tensor, "R H S"]
    mask: Bool[Tensor, "R G S"]


class UnmovedLocationScore(AbstractScore):
    """`LocationScore` with both channels, whose cumulative channel adds up softmax(e) instead of the weights.

    With a softmax alignment the two are the same; with forward attention they differ, and Coqui TTS does this. The
    window does not affect the sum.

    Args:
        query_size, memory_size, size, num_heads, num_filters, kernel_size, bias: as in `LocationScore`.

    Source: `OriginalAttention` of Coqui TTS with forward attention.
    """

    sources = ("chorowski2015", "shen2018")

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_filters: int = 32,
        kernel_size: int = 31,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.location = LocationScore(
            query_size,
            memory_size,
            size,
            num_heads=num_heads,
            location="both",
            num_filters=num_filters,
            kernel_size=kernel_size,
            bias=bias,
        )

    def prepare(self, source: Source) -> Tree:
        """U h, split into heads."""
        return self.location.prepare(source)

    def initial(self, memory: Memory, num_rows: int) -> Unmoved:
        """Zeros, and the mask."""
        trace = self.location.initial(memory, num_rows)
        mask = torch.ones_like(trace.cumulative[:, :1], dtype=torch.bool)
        if memory.mask is not None:
            mask = memory.mask.repeat_interleave(num_hypotheses(num_rows, len(memory.mask)), 0)[:, None]
        return Unmoved(trace, torch.zeros_like(trace.cumulative), mask)

    def forward(self, look: Look, leaf: Unmoved) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        energies, trace = self.location(look, leaf.trace)
        return energies, replace(leaf, trace=trace, energies=energies)

    def observe(self, attended: Attended, look: Look, leaf: Unmoved) -> Unmoved:
        """Stores the step's weights and adds softmax(e) to the sum."""
        trace = self.location.observe(attended, look, leaf.trace)
        added = ops.masked_softmax(leaf.energies, leaf.mask)
        return replace(leaf, trace=replace(trace, cumulative=leaf.trace.cumulative + added))


FLOOR, ELSEWHERE = 1e-8, 1e-7
SMOOTH = ("sigmoid", "smoothed_sigmoid")
"""Alignments whose weights depend on a bias of v."""


class RestartingForwardAlignment(ForwardAlignment):
    """Forward attention with m_t + 1e-8 instead of m_t; α̂_0 is 1e-7 at the other positions.

    The agent has no hidden layer and does not use the decoder's input.
    """

    floor = FLOOR

    def initial(self, memory: Memory, num_rows: int) -> Progress:
        """α̂_0 and u_0 = 1/2."""
        first = super().initial(memory, num_rows)
        return replace(first, alignment=first.alignment.clamp(min=ELSEWHERE))


def location_sensitive(**options: Any) -> Mechanism:
    """The attention of Coqui's Tacotron 1 and 2."""
    changed: dict[str, Any] = {"location": "both", "alignment": "smoothed_sigmoid", "bias": False}
    chosen = changed | options
    return recipes.location_sensitive(**({"output_bias": chosen["alignment"] in SMOOTH} | chosen))


def forward_attention(
    *,
    query_size: int,
    memory_size: int,
    input_size: int | None = None,
    size: int = 128,
    score: Literal["location", "additive"] = "location",
    transition_agent: bool = False,
    num_heads: int = 1,
    window: AbstractWindow | None = None,
    **filters: Any,
) -> Mechanism:
    """`OriginalAttention` with forward attention; the agent never uses the decoder's input, even with `input_size`."""
    plain = recipes.forward_attention(
        query_size=query_size, memory_size=memory_size, size=size, score=score, num_heads=num_heads, **filters
    )
    scoring: AbstractScore
    if score == "location":
        scoring = UnmovedLocationScore(query_size, memory_size, size, bias=False, num_heads=num_heads, **filters)
    else:
        scoring = AdditiveScore(query_size, memory_size, size, num_heads=num_heads)
    agent = None
    if transition_agent:
        agent = TransitionAgent(plain.context_size, query_size, hidden_size=None, num_heads=num_heads)
    return Mechanism(scoring, RestartingForwardAlignment(num_heads=num_heads, agent=agent), plain.read, window)


def dynamic_convolution(**options: Any) -> Mechanism:
    """Results depend on how far sentences are padded; bshall's original agrees with the recipe's default instead."""
    plain = recipes.dynamic_convolution(**options)
    return Mechanism(plain.score, UnmaskedAlignment(plain.alignment), plain.read, plain.window)


def gmm(*, query_size: int, memory_size: int, num_components: int = 5, num_heads: int = 1, **others: Any) -> Mechanism:
    """GravesAttention: another form of the logistic mixture, a hidden layer as wide as the query, dropout on ω̂."""
    for name, value in others.items():
        raise UnsupportedError(f"{name}={value!r}: like='coqui' fixes this option; leave it out.")
    score = SigmoidMixtureScore(query_size, num_heads=num_heads, num_components=num_components)
    read = WeightedSum(memory_size, num_heads=num_heads)
    return Mechanism(score, UnmaskedAlignment(ExponentialAlignment()), read)
