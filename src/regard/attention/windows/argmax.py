"""A window around the last peak of attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention.contract import AbstractWindow, Attended, Memory, Support, Tree
from regard.shapes import Float, Int


class ArgmaxWindow(AbstractWindow):
    """The positions p - back … p + front may be looked at, p being where the last step's weights had their maximum.

    Each row and head has its own p, 0 at first. A row whose window holds no real position (attention stood beside
    the padding) gets zero weights; `back=0` makes the peaks monotonic.

    Source: Chorowski et al. 2015 (arXiv 1506.07503), section 2.2.
    """

    sources = ("chorowski2015",)

    is_recurrent = True

    def __init__(self, *, back: int, front: int, num_heads: int = 1) -> None:
        super().__init__()
        if back < 0 or front < 0:
            raise ValueError(f"back={back} and front={front} must be 0 or more.")
        self.back = back
        self.front = front
        self.num_heads = num_heads

    def refuse(self, mechanism: Any) -> str | None:
        """Every head has its own peak."""
        if mechanism.score.num_heads == self.num_heads:
            return None
        return (
            f"The window follows the peaks of {self.num_heads} heads and the score has {mechanism.score.num_heads}: "
            f"give the window num_heads={mechanism.score.num_heads}."
        )

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """p = 0, (R, H) long."""
        return torch.zeros(num_rows, self.num_heads, dtype=torch.long, device=memory.values.device)

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tensor, position: Int[Tensor, " R"]
    ) -> tuple[Support, Tree]:
        """The support (R, H, S)."""
        offset = torch.arange(memory.values.shape[1], device=leaf.device) - leaf[..., None]
        return Support((offset >= -self.back) & (offset <= self.front)), leaf

    def observe(self, leaf: Tensor, attended: Attended, query: Float[Tensor, "R Q"], inputs: Tensor | None) -> Tensor:
        """The new peak; a row that saw nothing keeps its old one."""
        weights = attended.alignment
        if weights.shape[-1] == 0:
            return leaf
        highest, peak = weights.max(-1)
        return torch.where(highest > 0, peak, leaf)
