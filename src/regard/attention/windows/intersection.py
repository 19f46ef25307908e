"""Several windows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from regard.attention.contract import AbstractWindow, Attended, Memory, Support, Tree
from regard.shapes import Float, Int


class Intersection(AbstractWindow):
    """What every one of several windows allows; their priors add, their gains multiply."""

    def __init__(self, windows: Sequence[AbstractWindow]) -> None:
        super().__init__()
        self.windows: Any = nn.ModuleList(windows)
        self.is_recurrent = any(window.is_recurrent for window in windows)

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """A leaf each."""
        return tuple(window.initial(memory, num_rows) for window in self.windows)

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tree, position: Int[Tensor, " R"]
    ) -> tuple[Support, Tree]:
        """The combined support."""
        leaf = leaf if leaf is not None else (None,) * len(self.windows)
        result, leaves = Support(), []
        for window, own in zip(self.windows, leaf, strict=True):
            support, own = window(query, memory, own, position)
            result = Support(
                _both(result.support, support.support, lambda a, b: a & b),
                _both(result.log_prior, support.log_prior, lambda a, b: a + b),
                _both(result.gain, support.gain, lambda a, b: a * b),
            )
            leaves.append(own)
        return result, tuple(leaves)

    def observe(self, leaf: Tree, attended: Attended, query: Float[Tensor, "R Q"], inputs: Tensor | None) -> Tree:
        """Every window sees the weights."""
        return tuple(
            window.observe(own, attended, query, inputs) for window, own in zip(self.windows, leaf, strict=True)
        )


def _both(a: Tensor | None, b: Tensor | None, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return combine(a, b)
