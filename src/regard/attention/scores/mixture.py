"""The mixture score of Graves: Gaussians that move along the source."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.contract import AbstractScore, Memory, Tree
from regard.shapes import Float, Int


class MixtureScore(AbstractScore):
    """e_ij = log Σ_c ω_ic N(j; μ_ic, σ_ic²),  μ_ic = μ_{i-1,c} + Δ_ic: exp(e) is the alignment, which sums to about 1.

    (ω̂, Δ̂, σ̂) = V tanh(W q + b);  ω = softmax(ω̂), Δ = softplus(Δ̂), σ = softplus(σ̂): version V2 of Battenberg et al.
    With `initial_step` and `initial_width` the biases make Δ and σ start there (V2b). The source is never compared
    with the query, so there are no keys; positions j count from 0 and μ starts at 0.

    Args:
        query_size: Q.
        size: width of the hidden layer.
        num_components: C, for each head.

    Source: Graves 2013 (arXiv 1308.0850), section 5.1 (his κ is our μ, his 1/β our 2σ²); Battenberg et al. 2020
    (arXiv 1910.10288), table 1.
    """

    sources = ("graves2013", "battenberg2020")

    is_recurrent = True
    is_log_density = True

    def __init__(
        self,
        query_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_components: int = 5,
        initial_step: float = 1.0,
        initial_width: float = 10.0,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_components = num_components
        self.hidden = nn.Linear(query_size, size)
        self.parameters_of_mixture = nn.Linear(size, num_heads * 3 * num_components)
        with torch.no_grad():
            bias = self.parameters_of_mixture.bias.view(num_heads, 3, num_components)
            bias.zero_()
            bias[:, 1] = math.log(math.expm1(initial_step))
            bias[:, 2] = math.log(math.expm1(initial_width))

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """μ = 0, (R, H, C)."""
        return memory.values.new_zeros(num_rows, self.num_heads, self.num_components)

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tensor, position: Int[Tensor, " R"]
    ) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Log-densities (R, H, S) and the moved means."""
        raw = self.parameters_of_mixture(torch.tanh(self.hidden(query)))
        weight, step, width = raw.view(-1, self.num_heads, 3, self.num_components).unbind(2)
        mean = leaf + functional.softplus(step)
        deviation = functional.softplus(width) + torch.finfo(width.dtype).tiny
        places = torch.arange(memory.values.shape[1], device=query.device, dtype=query.dtype)
        distance = (places - mean[..., None]) / deviation[..., None]
        log_scale = weight.log_softmax(-1) - deviation.log() - 0.5 * math.log(2 * math.pi)
        return torch.logsumexp(log_scale[..., None] - 0.5 * distance.square(), 2), mean
