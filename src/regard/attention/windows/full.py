"""No window: all positions of the source."""

from __future__ import annotations

from torch import Tensor

from regard.attention.contract import AbstractWindow, Look, Support, Tree
from regard.shapes import Int


class FullWindow(AbstractWindow):
    """Every position may be attended to."""

    extent = "all"

    def forward(self, look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """A support without restrictions."""
        return Support(), leaf

    def at(self, positions: Int[Tensor, "#R #G W"], look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """A support without restrictions."""
        return Support(), leaf
