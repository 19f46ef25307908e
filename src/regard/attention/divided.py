"""Vectors that are divided into a key, a value and a part that predicts."""

from __future__ import annotations

from torch import Generator, Tensor

from regard.attention.contract import Attended, MechanismState, Memory
from regard.attention.interface import AbstractComposite
from regard.attention.mechanism import Mechanism
from regard.errors import ShapeError
from regard.shapes import Bool, Float, Int, describe


class Divided(AbstractComposite):
    """A mechanism over vectors h = [k; v; p]: k is compared, v is read, and p is left for the model's prediction.

    `prepare` takes whole vectors h and uses their k as keys and their v as values; `step` and `forward` take whole
    vectors h and use their k as queries. `divide` returns k, v and p. With two sizes h = [k; v], and v also serves as
    p; with one size h serves as all three.

    Args:
        mechanism: compares queries and keys of the first size and reads values of the second.
        sizes: of k, v and p, or of k and v, or of h.

    Source: Daniluk et al. 2017 (arXiv 1702.04521), sections 2.2 and 2.3.

    >>> import torch
    >>> from regard.attention import key_value_predict
    >>> attention = key_value_predict(size=6, reach=2)
    >>> h = torch.randn(1, 4, 6)
    >>> attended, _ = attention(h, attention.prepare(h), alignment=True)
    >>> attended.context.shape
    torch.Size([1, 4, 2])
    >>> (attended.alignment[0, 0] > 0).int()
    tensor([[0, 0, 0, 0],
            [1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 1, 1, 0]], dtype=torch.int32)
    """

    sources = ("daniluk2017",)

    def __init__(self, mechanism: Mechanism, sizes: tuple[int, ...]) -> None:
        super().__init__()
        if len(sizes) not in (1, 2, 3) or min(sizes) < 1:
            raise ShapeError(f"sizes={sizes} must be the widths of (k, v, p), of (k, v), or of h.")
        self.mechanism = mechanism
        self.sizes = sizes

    def divide(self, h: Float[Tensor, "*rows D"]) -> tuple[Tensor, Tensor, Tensor]:
        """k, v and p."""
        if h.shape[-1] != sum(self.sizes):
            raise ShapeError(
                f"h must have {sum(self.sizes)} features, {' + '.join(map(str, self.sizes))}.\n"
                + describe({"h": (" ".join("BTD"[-h.dim() :]), h)})
            )
        parts = h.split(self.sizes, -1)
        return parts[0], parts[min(1, len(parts) - 1)], parts[-1]

    @property
    def context_size(self) -> int:
        """V."""
        return self.mechanism.context_size

    @property
    def num_heads(self) -> int:
        """H."""
        return self.mechanism.num_heads

    @property
    def inner(self) -> tuple[Mechanism]:
        """The mechanism."""
        return (self.mechanism,)

    def prepare(
        self,
        values: Float[Tensor, "B S D"],
        *,
        mask: Bool[Tensor, "B S"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
        grid: tuple[int, int] | None = None,
    ) -> Memory:
        """All that depends only on h_1 … h_S."""
        keys, read, _ = self.divide(values)
        return self.mechanism.prepare(read, keys=keys, mask=mask, lengths=lengths, grid=grid)

    def extend(
        self, memory: Memory, values: Float[Tensor, "B S2 D"], *, mask: Bool[Tensor, "B S2"] | None = None
    ) -> Memory:
        """The memory with further h, as a language model extends it after every step."""
        keys, read, _ = self.divide(values)
        return self.mechanism.extend(memory, read, keys=keys, mask=mask)

    def initial_state(self, memory: Memory, num_hypotheses: int = 1) -> MechanismState:
        """The state before the first step."""
        return self.mechanism.initial_state(memory, num_hypotheses)

    def step(
        self,
        query: Float[Tensor, "R D"],
        memory: Memory,
        state: MechanismState,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, MechanismState]:
        """One step with queries h (R, D)."""
        return self.mechanism.step(
            self._query(query), memory, state, inputs=inputs, alignment=alignment, generator=generator
        )

    def forward(
        self,
        queries: Float[Tensor, "R T D"],
        memory: Memory,
        state: MechanismState | None = None,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, MechanismState]:
        """All steps of a sequence (R, T, D); agrees with the loop of `step`."""
        result: tuple[Attended, MechanismState] = self.mechanism(
            self._query(queries), memory, state, inputs=inputs, alignment=alignment, generator=generator
        )
        return result

    def pool(self, memory: Memory) -> Attended:
        """The context and alignment of each memory, for a mechanism without a query."""
        return self.mechanism.pool(memory)

    def _query(self, query: Float[Tensor, "*rows D"]) -> Tensor:
        return self.divide(query)[0] if self.mechanism.uses_query else query
