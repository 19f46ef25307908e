"""A location score whose sum adds up softmax(e), before forward attention moves it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard import ops
from regard.attention.contract import AbstractScore, Attended, Look, Memory, Source, Tree
from regard.attention.scores.location import LocationScore, Trace
from regard.shapes import Bool, Float, num_hypotheses


@dataclass(frozen=True, slots=True)
class Unmoved:
    """The leaf of `UnmovedLocationScore`.

    Args:
        trace: the last weights, and the sum of softmax(e) of all steps.
        energies: (R, H, S), e of the last step.
        mask: (R, 1, S), the memory's.
    """

    trace: Trace
    energies: Float[Tensor, "R H S"]
    mask: Bool[Tensor, "R G S"]


class UnmovedLocationScore(AbstractScore):
    """`LocationScore` with both channels, whose cumulative channel adds up softmax(e) instead of the weights.

    With a softmax alignment the two are the same; with forward attention they differ, and Coqui TTS does this. The
    window does not affect the sum.

    Args:
        query_size, memory_size, size, num_heads, num_filters, kernel_size, bias: as in `LocationScore`.

    Source: `OriginalAttention` of Coqui TTS with forward attention.
    """

    sources = ("chorowski2015", "shen2018")

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_filters: int = 32,
        kernel_size: int = 31,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.location = LocationScore(
            query_size,
            memory_size,
            size,
            num_heads=num_heads,
            location="both",
            num_filters=num_filters,
            kernel_size=kernel_size,
            bias=bias,
        )

    def prepare(self, source: Source) -> Tree:
        """U h, split into heads."""
        return self.location.prepare(source)

    def initial(self, memory: Memory, num_rows: int) -> Unmoved:
        """Zeros, and the mask."""
        trace = self.location.initial(memory, num_rows)
        mask = torch.ones_like(trace.cumulative[:, :1], dtype=torch.bool)
        if memory.mask is not None:
            mask = memory.mask.repeat_interleave(num_hypotheses(num_rows, len(memory.mask)), 0)[:, None]
        return Unmoved(trace, torch.zeros_like(trace.cumulative), mask)

    def forward(self, look: Look, leaf: Unmoved) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        energies, trace = self.location(look, leaf.trace)
        return energies, replace(leaf, trace=trace, energies=energies)

    def observe(self, attended: Attended, look: Look, leaf: Unmoved) -> Unmoved:
        """Stores the step's weights and adds softmax(e) to the sum."""
        trace = self.location.observe(attended, look, leaf.trace)
        added = ops.masked_softmax(leaf.energies, leaf.mask)
        return replace(leaf, trace=replace(trace, cumulative=leaf.trace.cumulative + added))
