"""Several windows at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
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
        self.is_bounded = all(window.is_bounded for window in windows)
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

    @property
    def width(self) -> int | None:
        """The least of the windows' widths."""
        return min((window.width for window in self.windows if window.width is not None), default=None)

    def start(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tree, position: Int[Tensor, " R"]
    ) -> Int[Tensor, "R G"]:
        """The last of the windows' starts."""
        starts = [
            window.start(query, seen, own, position)
            for window, seen, own in self._each(memory, leaf)
            if window.width is not None
        ]
        return functools.reduce(torch.maximum, starts)

    def at(
        self,
        places: Int[Tensor, "#R #G W"],
        query: Float[Tensor, "R Q"],
        memory: Memory,
        leaf: Tree,
        position: Int[Tensor, " R"],
    ) -> tuple[Support, Tree]:
        """The combined support at these places."""
        return _all(window.at(places, query, seen, own, position) for window, seen, own in self._each(memory, leaf))

    def forward(
        self, query: Float[Tensor, "R Q"], memory: Memory, leaf: Tree, position: Int[Tensor, " R"]
    ) -> tuple[Support, Tree]:
        """The combined support."""
        return _all(window(query, seen, own, position) for window, seen, own in self._each(memory, leaf))

    def observe(self, leaf: Tree, attended: Attended, query: Float[Tensor, "R Q"], inputs: Tensor | None) -> Tree:
        """Every window sees the weights."""
        return tuple(
            window.observe(own, attended, query, inputs) for window, own in zip(self.windows, leaf, strict=True)
        )

    def observe_at(
        self,
        places: Int[Tensor, "#R #G W"],
        leaf: Tree,
        attended: Attended,
        query: Float[Tensor, "R Q"],
        inputs: Tensor | None,
    ) -> Tree:
        """Every window sees the weights at these places."""
        return tuple(
            window.observe_at(places, own, attended, query, inputs)
            for window, own in zip(self.windows, leaf, strict=True)
        )

    @property
    def observes_all(self) -> bool:
        """Whether any of the windows does."""
        return any(window.observes_all for window in self.windows)

    def _each(self, memory: Memory, leaf: Tree) -> Iterator[tuple[AbstractWindow, Memory, Tree]]:
        """Every window with its memory and its leaf."""
        leaves = leaf if leaf is not None else (None,) * len(self.windows)
        return zip(self.windows, self._memories(memory), leaves, strict=True)

    def _memories(self, memory: Memory) -> list[Memory]:
        """The memory as each window knows it, with what it keeps itself."""
        kept = (memory.extras or {}).get("window")
        if kept is None:
            return [memory] * len(self.windows)
        return [replace(memory, extras={**memory.extras, "window": own}) for own in kept]


def _all(said: Iterable[tuple[Support, Tree]]) -> tuple[Support, Tree]:
    result, leaves = Support(), []
    for support, leaf in said:
        result = Support(
            _both(result.support, support.support, lambda a, b: a & b),
            _both(result.log_prior, support.log_prior, lambda a, b: a + b),
            _both(result.gain, support.gain, lambda a, b: a * b),
        )
        leaves.append(leaf)
    return result, tuple(leaves)


def _both(a: Tensor | None, b: Tensor | None, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return combine(a, b)
