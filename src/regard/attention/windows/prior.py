"""A prior that moves attention forward."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional

from regard.attention.beginning import first_alignment
from regard.attention.contract import AbstractWindow, Attended, Look, Memory, Parts, Support, Tree
from regard.attention.heads import refuse_heads
from regard.ops.logarithm import widen


def beta_binomial(num_trials: int, alpha: float, beta: float) -> list[float]:
    """The probabilities of 0 … n successes: C(n, k) B(k + α, n - k + β) / B(α, β).

    >>> [round(p, 3) for p in beta_binomial(10, 0.1, 0.9)[:4]]
    [0.74, 0.075, 0.042, 0.029]
    """

    def log_beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    return [
        math.comb(num_trials, k) * math.exp(log_beta(k + alpha, num_trials - k + beta) - log_beta(alpha, beta))
        for k in range(num_trials + 1)
    ]


class ForwardPriorWindow(AbstractWindow):
    """A prior for staying or moving a little to the right: log max(P * α_{i-1}, floor) is added to the energies.

    P_k is the probability of moving by k positions: beta-binomial with n = `reach`, α = `alpha` and β = `beta`, whose
    mean is n α / (α + β), 1 with the defaults. Because of the floor every position can be reached. Each head has its
    own α_{i-1}, which is all on the first position before the first step.

    Args:
        reach: n, the largest step forward.
        alpha, beta: the two shape parameters.
        floor: the least probability.
        num_heads: as many as the score has.

    Source: Battenberg et al. 2020 (arXiv 1910.10288), section 2.3.
    """

    sources = ("battenberg2020",)

    is_recurrent = True
    ignores_context = True

    def __init__(
        self, *, reach: int = 10, alpha: float = 0.1, beta: float = 0.9, floor: float = 1e-6, num_heads: int = 1
    ) -> None:
        super().__init__()
        if reach < 0 or min(alpha, beta, floor) <= 0:
            raise ValueError(f"reach={reach} must be 0 or more, alpha={alpha}, beta={beta} and floor={floor} above 0.")
        self.alpha, self.beta = alpha, beta
        self.probabilities = tuple(beta_binomial(reach, alpha, beta))
        self.floor = floor
        self.num_heads = num_heads

    def refuse(self, parts: Parts) -> str | None:
        """Refuses a score that has another number of heads."""
        return refuse_heads(parts, self.num_heads, "ForwardPriorWindow follows the weights of")

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """All on the first position, (R, H, S)."""
        return first_alignment("first", memory, num_rows, self.num_heads)

    def forward(self, look: Look, leaf: Tensor) -> tuple[Support, Tree]:
        """The logarithm of the prior (R, H, S)."""
        if leaf.shape[-1] == 0:
            return Support(), leaf
        wide = widen(leaf)
        moves = wide.new_tensor(self.probabilities[::-1]).expand(self.num_heads, 1, -1)
        padded = functional.pad(wide, (len(self.probabilities) - 1, 0))
        prior = functional.conv1d(padded, moves, groups=self.num_heads)
        return Support(log_prior=prior.clamp(min=self.floor).log().to(leaf.dtype)), leaf

    def observe(self, attended: Attended, look: Look, leaf: Tensor) -> Tensor:
        """Stores the step's weights."""
        return attended.alignment
