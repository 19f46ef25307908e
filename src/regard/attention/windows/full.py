"""No window: all of the source."""

from __future__ import annotations

from torch import Tensor

from regard.attention.contract import AbstractWindow, Memory, Support, Tree
from regard.shapes import Float, Int


class FullWindow(AbstractWindow):
    """Every position may be looked at."""

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tree, position: Int[Tensor, " R"]
    ) -> tuple[Support, Tree]:
        """A support without restrictions."""
        return Support(), leaf

    def at(
        self,
        places: Int[Tensor, "#R #G W"],
        query: Float[Tensor, "R Q"],
        memory: Memory,
        leaf: Tree,
        position: Int[Tensor, " R"],
    ) -> tuple[Support, Tree]:
        """A support without restrictions."""
        return Support(), leaf
