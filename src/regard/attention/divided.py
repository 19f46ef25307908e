"""Attention over vectors that consist of a key, a value and a part for the prediction."""

from __future__ import annotations

from torch import Tensor

from regard.attention.contract import Attended, Memory
from regard.attention.interface import AbstractModified
from regard.attention.mechanism import Mechanism
from regard.errors import ShapeError
from regard.shapes import Bool, Float, Int, describe


class Divided(AbstractModified):
    """A mechanism over vectors h = [k; v; p]: keys and queries k, values v, and p for the model's prediction.

    All methods take whole vectors h; `divide` returns k, v and p. With two sizes h = [k; v], and v also serves as p;
    with one size h serves as all three.

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
    def num_heads(self) -> int:
        """H."""
        return self.mechanism.num_heads

    @property
    def inner(self) -> tuple[Mechanism]:
        return (self.mechanism,)

    def prepare(
        self,
        values: Float[Tensor, "B S D"],
        *,
        mask: Bool[Tensor, "B S"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
        grid: tuple[int, int] | None = None,
    ) -> Memory:
        keys, read, _ = self.divide(values)
        return self.mechanism.prepare(read, keys=keys, mask=mask, lengths=lengths, grid=grid)

    def extend(
        self, memory: Memory, values: Float[Tensor, "B S2 D"], *, mask: Bool[Tensor, "B S2"] | None = None
    ) -> Memory:
        keys, read, _ = self.divide(values)
        return self.mechanism.extend(memory, read, keys=keys, mask=mask)

    def change_query(self, query: Float[Tensor, "*rows D"]) -> Tensor:
        return self.divide(query)[0] if self.mechanism.uses_query else query

    def pool(self, memory: Memory) -> Attended:
        """`Mechanism.pool`."""
        return self.mechanism.pool(memory)
