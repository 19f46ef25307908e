"""Readers that move only from left to right: monotonic, stepwise and chunkwise alignments."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard import ops
from regard.attention.contract import AbstractAlignment, AbstractScore, Memory, Parts, Source, StepInputs, Tree
from regard.attention.memory import first_alignment
from regard.attention.sizes import heads_reason
from regard.errors import UnsupportedError
from regard.shapes import Bool, Float

Hard = Literal["never", "evaluation", "always"]
Remaining = Literal["lost", "last"]


class AbstractReader(AbstractAlignment):
    """A reader that begins at the first position and stops or stays with probability p_ij = σ(e_ij + r + ε_ij).

    Args:
        num_heads, bias, learned_bias, noise, hard, remaining: as in `MonotonicAlignment`.
    """

    is_recurrent = True

    def __init__(
        self,
        *,
        num_heads: int = 1,
        bias: float = -1.0,
        learned_bias: bool = True,
        noise: float = 0.0,
        hard: Hard = "never",
        remaining: Remaining = "lost",
    ) -> None:
        super().__init__()
        if noise < 0:
            raise ValueError(f"noise={noise} is a standard deviation: it must be 0 or more.")
        for name, value, names in (("hard", hard, get_args(Hard)), ("remaining", remaining, get_args(Remaining))):
            if value not in names:
                raise UnsupportedError(f"{name}={value!r} must be one of {', '.join(map(repr, names))}.")
        self.num_heads = num_heads
        self.bias: float | nn.Parameter = nn.Parameter(torch.tensor(float(bias))) if learned_bias else bias
        self.noise = noise
        self.hard = hard
        self.remaining = remaining
        self.is_normalised = remaining == "last"
        self.is_random = noise > 0
        self.trains_differently = noise > 0 or hard == "evaluation"

    @property
    def decides(self) -> bool:
        """Whether p is rounded to 0 or 1 in this mode."""
        return self.hard == "always" or (self.hard == "evaluation" and not self.training)

    def unsupported_reason(self, parts: Parts) -> str | None:
        return heads_reason(parts, self.num_heads, f"{type(self).__name__} has readers for")

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """α_0: all mass on the first position that may be attended to, (R, H, S)."""
        return first_alignment("first", memory, num_rows, self.num_heads)

    def advance(
        self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        """α_i from p_i and α_{i-1}, 0 outside the support."""
        raise NotImplementedError

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, inputs: StepInputs, state: Tensor
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """α (R, H, S), as weights and as the state."""
        working = energies.to(torch.promote_types(energies.dtype, torch.float32)) + self.bias
        if self.training and self.noise > 0:
            noise = torch.randn(working.shape, generator=inputs.generator, dtype=working.dtype, device=working.device)
            working = working + self.noise * noise
        chance = (working > 0).to(working.dtype) if self.decides else torch.sigmoid(working)
        weights = self.advance(chance, state, support)
        if self.remaining == "last":
            weights = weights + (1 - weights.sum(-1, keepdim=True)).clamp(min=0) * last_of(support, weights)
        weights = weights.to(state.dtype)
        return weights, weights, None


def last_of(support: Bool[Tensor, "R G S"] | None, like: Float[Tensor, "R H S"]) -> Float[Tensor, "R G S"]:
    """1 at the last position of every row's support, else 0.

    >>> last_of(torch.tensor([[[True, True, False]]]), torch.zeros(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if support is None:
        support = torch.ones_like(like[:, :1], dtype=torch.bool)
    return (support & (support.flip(-1).cumsum(-1).flip(-1) == 1)).to(like.dtype)


class MonotonicAlignment(AbstractReader):
    """In each step a reader moves to the right from its last stop, and stops at one position.

    p_ij = σ(e_ij + r + ε_ij) is the probability of stopping at j on arrival. α_i is the expected stop
    (`ops.expected_monotonic_alignment`), or with `hard` the first position with p > 1/2
    (`ops.hard_monotonic_alignment`). The reader starts at the first position and skips those outside the support.

    Args:
        num_heads: H, each with its own reader.
        bias: r; below 0 the reader tends to move on. With `learned_bias` it is the initial value, shared by all heads.
        noise: the standard deviation of the normal ε, only in training; it drives p towards 0 and 1, which `hard`
            requires.
        hard: when decisions are hard: never, in evaluation, or always (energies then have no gradient).
        remaining: the probability of passing all positions is `lost`, so that a row sums to less than 1 and a hard
            reader past the end has no weight from then on; or it is added to the `last` position of the support.

    Source: Raffel et al. 2017 (arXiv 1704.00784), sections 2.2 to 2.5; `last`: fairseq's mass preservation.
    """

    sources = ("raffel2017",)

    def advance(
        self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        if support is not None:
            chance = chance.masked_fill(~support, 0)
        return ops.hard_monotonic_alignment(chance, previous) if self.decides else self.expect(chance, previous)

    def expect(self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"]) -> Float[Tensor, "R H S"]:
        """α_i: the expected stop."""
        return ops.expected_monotonic_alignment(chance, previous)


class StepwiseAlignment(AbstractReader):
    """α_ij = p_ij α_{i-1,j} + (1 - p_{i,j-1}) α_{i-1,j-1},  p_ij = σ(e_ij + r + ε_ij) the probability of staying.

    In every step the reader stays or moves on to the next position. It starts at the first one.

    Args:
        num_heads: H, each with its own reader.
        bias: the initial value of r, which is learned. The authors found training sensitive to it.
        noise: the standard deviation of the normal ε, only in training; it drives p towards 0 and 1.
        hard: when decisions are hard (the reader stays if p > 1/2): never, in evaluation, or always.
        remaining: the probability of moving beyond the last position is added to the `last` one, or is `lost`, as in
            the paper.

    Source: He, Deng & He 2019 (arXiv 1906.00672), section 3.
    """

    sources = ("he2019",)

    def __init__(
        self,
        *,
        num_heads: int = 1,
        bias: float = 3.5,
        noise: float = 2.0,
        hard: Hard = "never",
        remaining: Remaining = "last",
    ) -> None:
        super().__init__(num_heads=num_heads, bias=bias, learned_bias=True, noise=noise, hard=hard, remaining=remaining)

    def advance(
        self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        moved = pad((1 - chance) * previous, (1, 0))[..., : previous.shape[-1]]
        weights = chance * previous + moved
        return weights if support is None else weights.masked_fill(~support, 0)


class ChunkwiseAlignment(AbstractAlignment):
    """A reader stops at one position, and a softmax attends to the chunk of positions that ends there.

    α_i is the reader's alignment (`MonotonicAlignment`); β_i follows from α_i and a second score's energies u_i
    (`ops.moving_chunk_softmax`). α is carried to the next step; β are the weights.

    Args:
        chunk_score: the second score, without a state.
        chunk_size: w; 1 is plain monotonic attention; None for chunks that begin at the first position.
        reader: by default a `MonotonicAlignment`.

    Source: Chiu & Raffel 2018 (arXiv 1712.05382); without a chunk size Arivazhagan et al. 2019 (arXiv 1906.05218).
    """

    is_recurrent = True

    def __init__(
        self, chunk_score: AbstractScore, *, chunk_size: int | None, reader: MonotonicAlignment | None = None
    ) -> None:
        super().__init__()
        if chunk_size is not None and chunk_size < 1:
            raise ValueError(
                f"chunk_size={chunk_size} must be 1 or more, or None for a chunk that begins at the first position."
            )
        if chunk_score.is_recurrent:
            raise ValueError(f"The chunk score must not be recurrent; got {type(chunk_score).__name__}.")
        self.chunk_score = chunk_score
        self.chunk_size = chunk_size
        self.reader = reader if reader is not None else MonotonicAlignment(num_heads=chunk_score.num_heads)
        if self.reader.num_heads != chunk_score.num_heads:
            raise ValueError(
                f"The reader has {self.reader.num_heads} heads and the chunk score {chunk_score.num_heads}: "
                "give both the same num_heads."
            )
        published = "arivazhagan2019" if chunk_size is None else "chiu2018"
        self.sources = (published, *self.reader.sources, *chunk_score.sources)
        self.uses_query = chunk_score.uses_query
        self.query_size, self.memory_size = chunk_score.query_size, chunk_score.memory_size
        self.is_normalised = self.reader.is_normalised
        self.is_random = self.reader.is_random
        self.trains_differently = self.reader.trains_differently or chunk_score.trains_differently

    def unsupported_reason(self, parts: Parts) -> str | None:
        return self.reader.unsupported_reason(parts) or self.chunk_score.unsupported_reason(parts)

    def prepare(self, source: Source) -> Tree:
        """The second score's keys."""
        return self.chunk_score.prepare(source)

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """α_0, (R, H, S)."""
        return self.reader.initial(memory, num_rows)

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, inputs: StepInputs, state: Tensor
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """β (R, H, S), and α as the state."""
        alpha, state, _ = self.reader(energies, support, inputs, state)
        chunk_energies, _ = self.chunk_score(inputs.with_memory(score=inputs.memory.alignment), None)
        return ops.moving_chunk_softmax(alpha, chunk_energies, support, self.chunk_size), state, None
