"""The mixture of Coqui's Tacotron, which has a sigmoid where a logistic distribution has an exponential."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention.contract import AbstractScore, Look, Memory, Tree
from regard.layers import Dropout
from regard.layers.linear import Linear
from regard.shapes import Float

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
