"""Windows that reach a fixed number of positions before and after a centre."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.contract import AbstractWindow, Look, Memory, Support, Tree
from regard.shapes import Int


def everywhere(memory: Memory) -> Int[Tensor, "1 1 S"]:
    """All positions of a memory."""
    return torch.arange(memory.num_positions, device=memory.read.device)[None, None]


class AbstractReach(AbstractWindow):
    """The positions c - back … c + front around a `centre` c that is known before the energies.

    Args:
        back, front: how far the window reaches, both ends included; None means without limit. A number below 0 puts
            the end on the other side: `back=3, front=-1` are the three positions before c.
    """

    def __init__(self, *, back: int | None, front: int | None) -> None:
        super().__init__()
        if back is not None and front is not None and back + front < 0:
            raise ValueError(f"back={back} and front={front} leave no position: back + front must be 0 or more.")
        self.back = back
        self.front = front

    def centre(self, leaf: Tree, position: Int[Tensor, " R"]) -> Int[Tensor, "R G"]:
        """c, (R, 1 or H) long."""
        raise NotImplementedError

    @property
    def width(self) -> int | None:
        """back + 1 + front."""
        return None if self.back is None or self.front is None else self.back + 1 + self.front

    def start(self, look: Look, leaf: Tree) -> Int[Tensor, "R G"]:
        """c - back."""
        return self.centre(leaf, look.position) - (self.back or 0)

    def at(self, positions: Int[Tensor, "#R #G W"], look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The support at these positions."""
        offset = positions - self.centre(leaf, look.position)[..., None]
        allowed = torch.ones_like(offset, dtype=torch.bool)
        if self.back is not None:
            allowed = allowed & (offset >= -self.back)
        if self.front is not None:
            allowed = allowed & (offset <= self.front)
        return Support(allowed), leaf

    def forward(self, look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The support (R, 1 or H, S)."""
        return self.at(everywhere(look.memory), look, leaf)
