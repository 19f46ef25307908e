"""A window around the centre of the last step's weights."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from regard.attention.contract import Attended, Look, Memory, Parts, Tree
from regard.attention.heads import refuse_heads
from regard.attention.windows.reach import AbstractReach
from regard.shapes import Int, num_hypotheses


class ArgmaxWindow(AbstractReach):
    """The positions p - back … p + front may be attended to, where p is the centre of the last step's weights.

    Each row and head has its own p: the argmax of the weights (the first one of equal weights), or their median, the
    first position at which the cumulative weight is at least half. `back=0` makes the maxima monotonic.

    Before the first step p is the first position (`first=0`) or the place before it (`first=-1`); with `first=-1` the
    first step moves p to the first position, whatever its weights are. A row whose weights are all 0 keeps p.

    The weight of padding is exactly 0, so p is a real position and the window is never empty: once p + front passes the
    end, the positions up to the end remain, and attention can stay on the last one for any number of steps.

    Args:
        back, front: how far the window reaches, both ends included.
        centre: what p is, the `argmax` or the `median`.
        first: 0 or -1, p before the first step, counted from the first real position.

    Source: Chorowski et al. 2015 (arXiv 1506.07503), section 2.3, where p is the median.
    """

    sources = ("chorowski2015",)

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        *,
        back: int,
        front: int,
        centre: Literal["argmax", "median"] = "argmax",
        first: Literal[0, -1] = 0,
        num_heads: int = 1,
    ) -> None:
        super().__init__(back=back, front=front)
        for name, reach in (("back", back), ("front", front)):
            if reach < 0:
                raise ValueError(f"{name}={reach} must be 0 or more: a window contains its centre.")
        if centre not in ("argmax", "median"):
            raise ValueError(f"centre={centre!r} must be 'argmax' or 'median'.")
        if first not in (0, -1):
            raise ValueError(f"first={first} must be 0, the first position, or -1, the place before it.")
        if first + front < 0:
            raise ValueError(f"front={front} with first={first}: the first step could attend to nothing.")
        self.statistic = centre
        self.first = first
        self.num_heads = num_heads

    def refuse(self, parts: Parts) -> str | None:
        """Refuses a score that has another number of heads."""
        return refuse_heads(parts, self.num_heads, "ArgmaxWindow follows the weights of")

    def initial(self, memory: Memory, num_rows: int) -> Int[Tensor, "R H"]:
        """p: the first real position f, or ~f (below 0), which stands for the place before it."""
        start = torch.zeros(num_rows, dtype=torch.long, device=memory.read.device)
        if memory.mask is not None and memory.mask.numel():
            first = memory.mask.int().argmax(1)
            start = first.repeat_interleave(num_hypotheses(num_rows, first.shape[0]))
        return (start if self.first == 0 else ~start)[:, None].repeat(1, self.num_heads)

    def centre(self, leaf: Tree, position: Int[Tensor, " R"]) -> Int[Tensor, "R G"]:
        """p."""
        return torch.where(leaf < 0, ~leaf - 1, leaf)

    def observe(self, attended: Attended, look: Look, leaf: Tree) -> Tree:
        """p after the step."""
        positions = torch.arange(attended.alignment.shape[-1], device=leaf.device)[None, None]
        return self.observe_at(positions, attended, look, leaf)

    def observe_at(self, positions: Int[Tensor, "#R #G W"], attended: Attended, look: Look, leaf: Tree) -> Tree:
        """p after the step, from the weights at these positions."""
        weights = attended.alignment
        if weights.shape[-1] == 0:
            return leaf
        if self.statistic == "argmax":
            highest, index = weights.max(-1, keepdim=True)
        else:
            cumulative = (weights.float() if weights.element_size() < 4 else weights).cumsum(-1)
            highest = cumulative[..., -1:]
            index = (cumulative < highest / 2).sum(-1, keepdim=True)
        centre = positions.expand_as(weights).gather(-1, index)[..., 0]
        return torch.where(highest[..., 0] > 0, torch.where(leaf < 0, ~leaf, centre), leaf)
