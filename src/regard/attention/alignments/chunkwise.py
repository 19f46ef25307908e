"""Monotonic chunkwise alignment (MoChA), and with infinite lookback (MILk)."""

from __future__ import annotations

from torch import Tensor

from regard import ops
from regard.attention.alignments.monotonic import MonotonicAlignment
from regard.attention.contract import AbstractAlignment, AbstractScore, Look, Memory, Parts, Source, Tree
from regard.shapes import Bool, Float


class ChunkwiseAlignment(AbstractAlignment):
    """A reader stops at one position, and a softmax attends to the chunk of positions that ends there.

    α_i is the reader's alignment (`MonotonicAlignment`); β_i follows from α_i and a second score's energies u_i
    (`ops.moving_chunk_softmax`). α is carried to the next step; β are the weights.

    Args:
        chunk_score: the second score; it has no leaf in the state.
        chunk_size: w; 1 is plain monotonic attention, None lets the chunk begin at the first position.
        reader: the reader that stops; a `MonotonicAlignment` with default options if None.

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
            raise ValueError(f"The chunk score has no leaf in the state, and {type(chunk_score).__name__} needs one.")
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

    def refuse(self, parts: Parts) -> str | None:
        """Why the reader or the second score refuses."""
        return self.reader.refuse(parts) or self.chunk_score.refuse(parts)

    def prepare(self, source: Source) -> Tree:
        """The second score's keys."""
        return self.chunk_score.prepare(source)

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """α_0, (R, H, S)."""
        return self.reader.initial(memory, num_rows)

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tensor
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """β (R, H, S), and α as the leaf."""
        alpha, leaf, _ = self.reader(energies, support, look, leaf)
        chunk_energies, _ = self.chunk_score(look.with_memory(score=look.memory.alignment), None)
        return ops.moving_chunk_softmax(alpha, chunk_energies, support, self.chunk_size), leaf, None
