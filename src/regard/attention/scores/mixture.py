"""Graves' mixture score: densities that move along the source."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention.contract import AbstractScore, Memory, StepInputs, Tree
from regard.errors import ShapeError
from regard.layers.linear import Linear
from regard.shapes import Float

Family = Literal["gaussian", "logistic"]
Version = Literal["V0", "V1", "V2"]

_HIGHEST = 10.0
_NARROWEST = 1e-5


class MixtureScore(AbstractScore):
    """e_ij = log Σ_c ω_ic B(j; μ_ic, σ_ic),  μ_ic = μ_{i-1,c} + Δ_ic: exp(e) is the alignment, which sums to about 1.

    (ω̂, Δ̂, σ̂) = V tanh(W q + b) give the weights, steps and widths of the components:

    - V0: ω = exp ω̂, Δ = exp Δ̂, σ = √(exp(-σ̂) / 2), and B has height 1 (Graves); nothing bounds these weights.
    - V1: ω = softmax ω̂, Δ = exp Δ̂, σ = √(exp σ̂).
    - V2: ω = softmax ω̂, Δ = softplus Δ̂, σ = softplus σ̂.

    Biases make Δ and σ start at `initial_step` and `initial_width` (versions V1b and V2b: 1 and 10).
    Energies do not depend on the source, so there are no keys; positions j count from 0 and μ starts at 0. The
    memory's pace is a factor of Δ.

    Args:
        query_size: Q.
        size: width of the hidden layer.
        num_components: C, for each head.
        family: B is the density of a `gaussian` at j, or the probability of a `logistic` distribution between j - ½ and
            j + ½, which sums to exactly 1 over all integers.
        version: as above.
        initial_step, initial_width: Δ and σ before training, in positions; None leaves the biases at zero.

    Numerics: half types are computed in float32. Exponents are at most 10 (a step of 22,026 positions), widths at least
    1e-5, energies at least half of the lowest finite number.

    Source: Graves 2013 (arXiv 1308.0850), section 5.1 (his κ is our μ, his 1/β our 2σ²); Battenberg et al. 2020
    (arXiv 1910.10288), table 1; logistic: Vasquez & Lewis 2019 (arXiv 1906.01083), section 4.
    """

    is_recurrent = True
    is_log_density = True
    has_pace = True

    def __init__(
        self,
        query_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_components: int = 5,
        family: Family = "gaussian",
        version: Version = "V2",
        initial_step: float | None = 1.0,
        initial_width: float | None = 10.0,
    ) -> None:
        super().__init__()
        self.query_size = query_size
        for name, value, names in (("family", family, get_args(Family)), ("version", version, get_args(Version))):
            if value not in names:
                raise ValueError(f"{name}={value!r} must be one of {', '.join(names)}.")
        if family == "logistic" and version == "V0":
            raise ValueError("version='V0' has Graves' components of height 1, which are Gaussian: use 'V1' or 'V2'.")
        if size < 1:
            raise ShapeError(f"size={size}: the hidden layer needs at least 1 feature.")
        self.num_heads = num_heads
        self.num_components = num_components
        self.family = family
        self.version = version
        self.sources = ("graves2013", "battenberg2020", *(("vasquez2019",) if family == "logistic" else ()))
        self.hidden = Linear(query_size, size)
        self.parameters_of_mixture = Linear(size, num_heads * 3 * num_components)
        with torch.no_grad():
            bias = self.parameters_of_mixture.bias.view(num_heads, 3, num_components)
            bias.zero_()
            if initial_step is not None:
                bias[:, 1] = math.log(math.expm1(initial_step) if version == "V2" else initial_step)
            if initial_width is not None:
                bias[:, 2] = {
                    "V0": -math.log(2 * initial_width**2),
                    "V1": 2 * math.log(initial_width),
                    "V2": math.log(math.expm1(initial_width)),
                }[version]

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """μ = 0, (R, H, C)."""
        zeros = memory.read.new_zeros(num_rows, self.num_heads, self.num_components)
        return zeros.float() if zeros.element_size() < 4 else zeros

    def forward(self, inputs: StepInputs, state: Tensor) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Log-densities (R, H, S) and the moved means."""
        raw = self.parameters_of_mixture(torch.tanh(self.hidden(inputs.query))).to(state.dtype)
        weight, step, width = raw.view(-1, self.num_heads, 3, self.num_components).unbind(2)
        step = functional.softplus(step) if self.version == "V2" else step.clamp(max=_HIGHEST).exp()
        mean = state + inputs.paced(step)
        log_weight = weight.clamp(max=_HIGHEST) if self.version == "V0" else weight.log_softmax(-1)
        deviation = self._deviation(width)[..., None]
        positions = torch.arange(inputs.memory.num_positions, device=inputs.query.device, dtype=state.dtype)
        distance = (positions - mean[..., None]) / deviation
        density = self._log_logistic(distance, deviation) if self.family == "logistic" else -0.5 * distance.square()
        if self.family == "gaussian" and self.version != "V0":
            density = density - deviation.log() - 0.5 * math.log(2 * math.pi)
        energies = torch.logsumexp(log_weight[..., None] + density, 2)
        return energies.clamp(min=torch.finfo(inputs.query.dtype).min / 2).to(inputs.query.dtype), mean

    def _deviation(self, raw: Tensor) -> Tensor:
        if self.version == "V2":
            return functional.softplus(raw).clamp(min=_NARROWEST)
        logarithm = raw / 2 if self.version == "V1" else -(raw + math.log(2)) / 2
        return logarithm.clamp(math.log(_NARROWEST), _HIGHEST).exp()

    @staticmethod
    def _log_logistic(distance: Tensor, deviation: Tensor) -> Tensor:
        """log (F(j + ½) - F(j - ½)), from F(a) - F(b) = F(a) F(-b) (1 - exp(b - a))."""
        half = 0.5 / deviation
        tails = functional.logsigmoid(distance + half) + functional.logsigmoid(half - distance)
        return tails + torch.log(-torch.expm1(-2 * half))
