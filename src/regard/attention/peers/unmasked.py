"""An alignment that takes padding for source, for models that were trained so."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.attention.contract import AbstractAlignment, Attended, Look, Memory, Source, Tree
from regard.shapes import Bool, Float


class UnmaskedAlignment(AbstractAlignment):
    """Another alignment over all positions, padding too; then what lies outside the support gets a small weight.

    Nothing is renormalised, so the weights of a sentence depend on how far it is padded. It breaks what the library
    promises of padding, and is for weights that were trained with Coqui TTS, and only those.

    Args:
        alignment: the other alignment, which is told of no support.
        outside: the weight outside the support.
    """

    is_normalised = False

    def __init__(self, alignment: AbstractAlignment, *, outside: float = 1e-8) -> None:
        super().__init__()
        self.alignment = alignment
        self.outside = outside
        self.is_recurrent = alignment.is_recurrent
        self.is_random = alignment.is_random
        self.uses_query = alignment.uses_query
        self.trains_differently = alignment.trains_differently
        self.sources = alignment.sources

    def refuse(self, mechanism: Any) -> str | None:
        """What the other alignment objects to."""
        return self.alignment.refuse(mechanism)

    def prepare(self, source: Source) -> Tree:
        """What the other alignment keeps."""
        return self.alignment.prepare(source)

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """The other alignment's leaf."""
        return self.alignment.initial(memory, num_rows)

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        weights, leaf, auxiliary = self.alignment(energies, None, look, leaf)
        return weights if support is None else weights.masked_fill(~support, self.outside), leaf, auxiliary

    def observe(self, attended: Attended, look: Look, leaf: Tree) -> Tree:
        """The other alignment sees the weights."""
        return self.alignment.observe(attended, look, leaf)
