"""Monotonic chunkwise alignment (MoChA)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Generator, Tensor

from regard import ops
from regard.attention.contract import AbstractAlignment, AbstractScore, Memory, Tree
from regard.shapes import Bool, Float, Int


class ChunkwiseAlignment(AbstractAlignment):
    """A reader stops at one position, in expectation, and looks softly at the chunk that ends there.

    p_ij = σ(e_ij + r);  α_i from p_i and α_{i-1} (`ops.expected_monotonic_alignment`);
    β_i from α_i and a second score's energies u_i (`ops.moving_chunk_softmax`).
    What is carried to the next step is α; what is read is β. α starts at position 0.

    Args:
        chunk_score: the second score; it keeps no leaf of its own.
        chunk_size: w; 1 is plain monotonic attention.
        bias: r, where it starts; below 0 the reader tends to read on. It is learned.

    Source: Chiu & Raffel 2018 (arXiv 1712.05382); r: Raffel et al. 2017 (arXiv 1704.00784), section 2.4.
    """

    is_recurrent = True
    is_normalised = False

    def __init__(self, chunk_score: AbstractScore, *, chunk_size: int, bias: float = -1.0) -> None:
        super().__init__()
        if chunk_size < 1:
            raise ValueError(f"chunk_size={chunk_size} must be 1 or more.")
        if chunk_score.is_recurrent:
            raise ValueError(f"The chunk score keeps no state of its own; {type(chunk_score).__name__} needs one.")
        self.sources = ("raffel2017", "chiu2018", *chunk_score.sources)
        self.uses_query = chunk_score.uses_query
        self.chunk_score = chunk_score
        self.chunk_size = chunk_size
        self.bias = torch.nn.Parameter(torch.tensor(bias))

    def prepare(
        self,
        values: Float[Tensor, "B S M"],
        keys: Float[Tensor, "B S M2"],
        mask: Bool[Tensor, "B S"] | None,
        start: int = 0,
    ) -> Tree:
        """The second score's keys."""
        return self.chunk_score.prepare(values, keys, mask, start)

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """α_0: all mass at position 0, (R, H, S)."""
        start = memory.values.new_zeros(num_rows, self.chunk_score.num_heads, memory.values.shape[1])
        start[..., :1] = 1
        return start

    def forward(
        self,
        energies: Float[Tensor, "R H S"],
        support: Bool[Tensor, "R G S"] | None,
        query: Float[Tensor, "R Q"],
        memory: Memory,
        leaf: Tensor,
        position: Int[Tensor, " R"],
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """β (R, H, S), and α as the leaf."""
        choose = torch.sigmoid(energies + self.bias)
        if support is not None:
            choose = choose.masked_fill(~support, 0)
        stops = ops.expected_monotonic_alignment(choose, leaf)
        chunk, _ = self.chunk_score(query, replace(memory, keys=memory.extras["alignment"]), None, position)
        return ops.moving_chunk_softmax(stops, chunk, support, self.chunk_size), stops, None
