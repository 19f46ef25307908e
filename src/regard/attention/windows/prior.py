"""Priors over all positions: biases of distances, and a prior that moves forward."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.contract import AbstractWindow, Attended, Memory, Parts, StepInputs, Support, Tree
from regard.attention.memory import first_alignment
from regard.attention.sizes import heads_reason
from regard.attention.windows.sliding import everywhere
from regard.errors import ShapeError
from regard.ops.logarithm import widen
from regard.shapes import Float, Int


class AbstractBias(AbstractWindow):
    """e_ij + b_h(j - i). All positions may be attended to: intersect with `CausalWindow` to hide the future.

    Args:
        num_heads: H of the score, or 1 for a bias that heads share.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ShapeError(f"num_heads={num_heads} must be 1 or more.")
        self.num_heads = num_heads

    def unsupported_reason(self, parts: Parts) -> str | None:
        return heads_reason(parts, self.num_heads, f"{type(self).__name__} has a bias for each of", shared="a bias")

    def bias(self, offset: Int[Tensor, "R G W"], dtype: torch.dtype) -> Float[Tensor, "R H W"]:
        """b_h of offsets j - i."""
        raise NotImplementedError

    def at(self, positions: Int[Tensor, "#R #G W"], inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        return Support(log_prior=self.bias(positions - inputs.position[:, None, None], inputs.memory.read.dtype)), state

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        return self.at(everywhere(inputs.memory), inputs, state)


class LinearBiasWindow(AbstractBias):
    """ALiBi: e_ij - m_h |i - j|, with a slope m_h for each head.

    With n heads, n a power of two, head h = 1 … n has the slope 2^{-8h/n}. Otherwise let p be the largest power of two
    below n: the first p heads have the slopes of p heads, the others every second slope of 2p heads.

    Args:
        num_heads: H of the score, or 1 for one slope, 2^{-8}.

    Source: Press, Smith & Lewis 2022 (arXiv 2108.12409), section 3, and the authors' code for other numbers of heads;
    encoders use |i - j| for positions after the query, too.

    >>> LinearBiasWindow(3).slopes(torch.float32)
    tensor([0.0625, 0.0039, 0.2500])
    """

    sources = ("press2022",)

    def slopes(self, dtype: torch.dtype, device: torch.device | None = None) -> Float[Tensor, " H"]:
        """m_h."""
        power = 1 << (self.num_heads.bit_length() - 1)
        head = torch.arange(self.num_heads, dtype=dtype, device=device)
        fraction = torch.where(head < power, (head + 1) / power, (head - power + 0.5) / power)
        return torch.exp2(-8 * fraction)

    def bias(self, offset: Int[Tensor, "R G W"], dtype: torch.dtype) -> Float[Tensor, "R H W"]:
        """-m_h |j - i|, not below half of the lowest finite number of the type."""
        wide = torch.promote_types(dtype, torch.float32)
        bias = -self.slopes(wide, offset.device)[:, None] * offset.abs().to(wide)
        return bias.clamp(min=torch.finfo(dtype).min / 2).to(dtype)


class BucketBiasWindow(AbstractBias):
    """T5's relative positions: e_ij + b_{h, bucket(j - i)}.

    In each direction the first half of the buckets hold one distance |i - j| each; the others hold ranges that grow
    logarithmically, the last one every distance from `max_distance` on. The biases start at 0.

    Args:
        num_heads: H of the score, or 1 for a bias that heads share.
        num_buckets: the number of buckets, both directions together.
        max_distance: the approximate beginning of the last bucket; the logarithm gives the exact boundary.
        bidirectional: half of the buckets for each direction, as in an encoder; otherwise all positions after the
            query share the bucket of distance 0, as in a decoder.

    Source: Raffel et al. 2020 (arXiv 1910.10683), section 2.1, and the authors' code, with these differences: there the
    bias is shared by all layers, energies are not divided by √d, and boundaries are computed in float32 (here in
    integers).
    """

    sources = ("raffel2020",)

    is_bounded = False

    boundaries: Tensor

    def __init__(
        self, num_heads: int, *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__(num_heads)
        one_way = num_buckets // 2 if bidirectional else num_buckets
        if (bidirectional and num_buckets % 2) or one_way < 2:
            needed = "an even number from 4" if bidirectional else "2 or more"
            raise ShapeError(f"num_buckets={num_buckets} must be {needed} (bidirectional={bidirectional}).")
        if max_distance <= one_way // 2:
            raise ShapeError(
                f"max_distance={max_distance} must be above {one_way // 2}, the distances that have their own bucket."
            )
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.one_way = one_way
        self.register_buffer("boundaries", torch.tensor(_boundaries(one_way, max_distance)), persistent=False)
        self.biases = nn.Parameter(torch.zeros(num_buckets, num_heads))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Also recomputes the boundaries, which are not saved and which `to_empty` leaves undefined."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if not self.boundaries.is_meta:
            self.boundaries.copy_(torch.tensor(_boundaries(self.one_way, self.max_distance)))
        return self

    def buckets(self, offset: Int[Tensor, "*rows"]) -> Int[Tensor, "*rows"]:
        """The bucket of every offset j - i.

        >>> BucketBiasWindow(1, num_buckets=8, max_distance=6).buckets(torch.tensor([-9, -3, -2, -1, 0, 1, 2, 9]))
        tensor([3, 2, 2, 1, 0, 5, 6, 7])
        """
        distance = offset.abs() if self.bidirectional else (-offset).clamp(min=0)
        bucket = torch.bucketize(distance, self.boundaries, right=True)
        return bucket + (offset > 0) * (len(self.boundaries) + 1) if self.bidirectional else bucket

    def bias(self, offset: Int[Tensor, "R G W"], dtype: torch.dtype) -> Float[Tensor, "R H W"]:
        heads = max(self.num_heads, offset.shape[1])
        biases = self.biases.T.expand(offset.shape[0], heads, -1)
        return biases.gather(2, self.buckets(offset).expand(-1, heads, -1)).to(dtype)


def _boundaries(num_buckets: int, max_distance: int) -> list[int]:
    """The lower ends of the buckets after the first: n is in E + k if log(n/E) / log(max/E) ≥ k / (N - E), E = N/2.

    >>> _boundaries(8, 64)
    [1, 2, 3, 4, 8, 16, 32]
    """
    exact = num_buckets // 2
    ranges = num_buckets - exact
    begins = list(range(1, exact + 1))
    for k in range(1, ranges):
        n = begins[-1]
        while n**ranges * exact**k < max_distance**k * exact**ranges:
            n += 1
        begins.append(n)
    return begins


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

    moves: Tensor

    def __init__(
        self, *, reach: int = 10, alpha: float = 0.1, beta: float = 0.9, floor: float = 1e-6, num_heads: int = 1
    ) -> None:
        super().__init__()
        if reach < 0 or min(alpha, beta, floor) <= 0:
            raise ValueError(f"reach={reach} must be 0 or more, alpha={alpha}, beta={beta} and floor={floor} above 0.")
        self.alpha, self.beta = alpha, beta
        self.probabilities = tuple(beta_binomial(reach, alpha, beta))
        self.register_buffer("moves", torch.tensor(self.probabilities[::-1]), persistent=False)
        self.floor = floor
        self.num_heads = num_heads

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Also recomputes P in place: it is not saved, `to_empty` leaves it undefined, and half types round it."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        kind = torch.promote_types(self.moves.dtype, torch.float32)
        values = torch.tensor(self.probabilities[::-1], dtype=kind, device=self.moves.device)
        if self.moves.dtype == kind:
            self.moves.copy_(values)
        else:
            self.moves.data = values
        return self

    def unsupported_reason(self, parts: Parts) -> str | None:
        return heads_reason(parts, self.num_heads, "ForwardPriorWindow follows the weights of")

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """All weight on the first position, (R, H, S)."""
        return first_alignment("first", memory, num_rows, self.num_heads)

    def forward(self, inputs: StepInputs, state: Tensor) -> tuple[Support, Tree]:
        """The logarithm of the prior (R, H, S)."""
        if state.shape[-1] == 0:
            return Support(), state
        wide = widen(state)
        moves = self.moves.to(wide).expand(self.num_heads, 1, -1)
        padded = functional.pad(wide, (len(self.probabilities) - 1, 0))
        prior = functional.conv1d(padded, moves, groups=self.num_heads)
        return Support(log_prior=prior.clamp(min=self.floor).log().to(state.dtype)), state

    def observe(self, attended: Attended, inputs: StepInputs, state: Tensor) -> Tensor:
        """Stores the step's weights."""
        return attended.alignment
