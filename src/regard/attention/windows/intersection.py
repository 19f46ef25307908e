"""Several windows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.attention.contract import AbstractWindow, Attended, Memory, Support, Tree
from regard.shapes import Bool, Float, Int


class Intersection(AbstractWindow):
    """What every one of several windows allows; their priors add, their gains multiply."""

    def __init__(self, windows: Sequence[AbstractWindow]) -> None:
        super().__init__()
        self.windows: Any = nn.ModuleList(windows)
        self.is_recurrent = any(window.is_recurrent for window in windows)
        self.uses_query = any(window.uses_query for window in windows)
        self.has_gain = any(window.has_gain for window in windows)
        self.trains_differently = any(window.trains_differently for window in windows)
        self.sources = tuple(key for window in windows for key in window.sources)

    def refuse(self, mechanism: Any) -> str | None:
        """The first objection of a window."""
        return next((reason for window in self.windows if (reason := window.refuse(mechanism)) is not None), None)

    def prepare(
        self,
        values: Float[Tensor, "B S M"],
        keys: Float[Tensor, "B S M2"],
        mask: Bool[Tensor, "B S"] | None,
        start: int = 0,
    ) -> Tree:
        """What each window keeps."""
        kept = tuple(window.prepare(values, keys, mask, start) for window in self.windows)
        return kept if any(own is not None for own in kept) else None

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """A leaf each."""
        return tuple(
            window.initial(own, num_rows) for window, own in zip(self.windows, self._memories(memory), strict=True)
        )

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tree, position: Int[Tensor, " R"]
    ) -> tuple[Support, Tree]:
        """The combined support."""
        leaf = leaf if leaf is not None else (None,) * len(self.windows)
        result, leaves = Support(), []
        for window, seen, own in zip(self.windows, self._memories(memory), leaf, strict=True):
            support, own = window(query, seen, own, position)
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

    def _memories(self, memory: Memory) -> list[Memory]:
        """The memory as each window knows it, with what it keeps itself."""
        kept = (memory.extras or {}).get("window")
        if kept is None:
            return [memory] * len(self.windows)
        return [replace(memory, extras={**memory.extras, "window": own}) for own in kept]


def _both(a: Tensor | None, b: Tensor | None, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return combine(a, b)
