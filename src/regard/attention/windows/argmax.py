"""A window around the place where attention was last."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from regard.attention.contract import Attended, Look, Memory, Tree
from regard.attention.windows.reach import AbstractReach
from regard.shapes import Int, num_hypotheses


class ArgmaxWindow(AbstractReach):
    """The positions p - back … p + front may be looked at, where the last step's weights had their centre p.

    Each row and head has its own p. It is the maximum of the weights, the first of several, or their median: the first
    position up to which at least half of the weights lie. `back=0` makes the maxima monotonic.

    Before the first step p is the first position (`first=0`), or, with `first=-1`, the place before it; then the first
    step counts as centred on the first position, whatever its weights are. A row that saw nothing keeps its p.

    What padding gets is exactly 0, so p is a real position and the window is never empty: once p + front passes the
    end, the positions up to the end remain, and attention can stay on the last one for as long as it is asked.

    Args:
        back, front: how far, both ends included.
        centre: what p is, the `argmax` or the `median`.
        first: 0 or -1, where p is before the first step, counted from the first real position.

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
                raise ValueError(f"{name}={reach} must be 0 or more: a window holds its own centre.")
        if centre not in ("argmax", "median"):
            raise ValueError(f"centre={centre!r} must be 'argmax' or 'median'.")
        if first not in (0, -1):
            raise ValueError(f"first={first} must be 0, the first position, or -1, the place before it.")
        if first + front < 0:
            raise ValueError(f"front={front} with first={first}: the first step could look at nothing.")
        self.statistic = centre
        self.first = first
        self.num_heads = num_heads

    def refuse(self, mechanism: Any) -> str | None:
        """Every head has its own centre."""
        if mechanism.score.num_heads == self.num_heads:
            return None
        return (
            f"The window follows the peaks of {self.num_heads} heads and the score has {mechanism.score.num_heads}: "
            f"give the window num_heads={mechanism.score.num_heads}."
        )

    def initial(self, memory: Memory, num_rows: int) -> Int[Tensor, "R H"]:
        """p at the first real position f, or, as the complement of f, before it."""
        start = torch.zeros(num_rows, dtype=torch.long, device=memory.read.device)
        if memory.mask is not None and memory.mask.numel():
            found = memory.mask.int().argmax(1)
            start = found.repeat_interleave(num_hypotheses(num_rows, found.shape[0]))
        return (start if self.first == 0 else ~start)[:, None].repeat(1, self.num_heads)

    def centre(self, leaf: Tree, position: Int[Tensor, " R"]) -> Int[Tensor, "R G"]:
        """p."""
        return torch.where(leaf < 0, ~leaf - 1, leaf)

    def observe(self, attended: Attended, look: Look, leaf: Tree) -> Tree:
        """The new p."""
        places = torch.arange(attended.alignment.shape[-1], device=leaf.device)[None, None]
        return self.observe_at(places, attended, look, leaf)

    def observe_at(self, places: Int[Tensor, "#R #G W"], attended: Attended, look: Look, leaf: Tree) -> Tree:
        """The new p, found among these places."""
        weights = attended.alignment
        if weights.shape[-1] == 0:
            return leaf
        if self.statistic == "argmax":
            highest, index = weights.max(-1, keepdim=True)
        else:
            reached = (weights.float() if weights.element_size() < 4 else weights).cumsum(-1)
            highest = reached[..., -1:]
            index = (reached < highest / 2).sum(-1, keepdim=True)
        found = places.expand_as(weights).gather(-1, index)[..., 0]
        return torch.where(highest[..., 0] > 0, torch.where(leaf < 0, ~leaf, found), leaf)
