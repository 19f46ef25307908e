"""Windows that follow the step number: causal and sliding."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from regard.attention.contract import Tree
from regard.attention.windows.reach import AbstractReach
from regard.shapes import Int


class SlidingWindow(AbstractReach):
    """At step t the positions t - back … t + front may be attended to; None means without limit.

    With back = front = D it is Luong's local-m, which assumes that target and source advance together.

    >>> import torch
    >>> from regard.attention import Look, Memory
    >>> look = Look(torch.zeros(2, 1), Memory(read=torch.zeros(1, 4, 1, 1)), position=torch.tensor([0, 2]))
    >>> SlidingWindow(back=1, front=0)(look, None)[0].support.int()
    tensor([[[1, 0, 0, 0]],
    <BLANKLINE>
            [[0, 1, 1, 0]]], dtype=torch.int32)

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.2, `local-m`.
    """

    def centre(self, leaf: Tree, position: Int[Tensor, " R"]) -> Int[Tensor, "R G"]:
        """t, (R, 1)."""
        return position[:, None]

    def extent_of(self, num_positions: int) -> Literal["all", "past"] | None:
        """`past` if no position is too far back."""
        is_past = type(self) is SlidingWindow and self.front == 0
        return "past" if is_past and (self.back is None or self.back >= num_positions - 1) else self.extent


class CausalWindow(SlidingWindow):
    """At step t the positions 0 … t may be attended to: self-attention that never sees the future."""

    extent = "past"

    def __init__(self) -> None:
        super().__init__(back=None, front=0)
