"""Windows that follow the step number: causal and sliding."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.contract import AbstractWindow, Memory, Support, Tree
from regard.shapes import Float, Int


class SlidingWindow(AbstractWindow):
    """At step t the positions t - back … t + front may be looked at; None means without limit.

    >>> from regard.attention import Memory
    >>> window, memory = SlidingWindow(back=1, front=0), Memory(None, torch.zeros(1, 4, 1, 1))
    >>> window(torch.zeros(2, 1), memory, None, torch.tensor([0, 2]))[0].support.int()
    tensor([[[1, 0, 0, 0]],
    <BLANKLINE>
            [[0, 1, 1, 0]]], dtype=torch.int32)
    """

    def __init__(self, *, back: int | None, front: int | None) -> None:
        super().__init__()
        for name, reach in (("back", back), ("front", front)):
            if reach is not None and reach < 0:
                raise ValueError(f"{name}={reach} must be 0 or more, or None for no limit.")
        self.back = back
        self.front = front

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tree, position: Int[Tensor, " R"]
    ) -> tuple[Support, Tree]:
        """The support (R, 1, S)."""
        offset = torch.arange(memory.values.shape[1], device=position.device) - position[:, None]
        allowed = torch.ones_like(offset, dtype=torch.bool)
        if self.back is not None:
            allowed = allowed & (offset >= -self.back)
        if self.front is not None:
            allowed = allowed & (offset <= self.front)
        return Support(allowed[:, None]), leaf


class CausalWindow(SlidingWindow):
    """At step t the positions 0 … t may be looked at: self-attention that never sees the future."""

    def __init__(self) -> None:
        super().__init__(back=None, front=0)
