"""Several windows at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractWindow, Attended, Look, Memory, Source, Support, Tree
from regard.shapes import Int


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
        """The first reason of a window."""
        return next((reason for window in self.windows if (reason := window.refuse(mechanism)) is not None), None)

    def prepare(self, source: Source) -> Tree:
        """What each window keeps."""
        kept = tuple(window.prepare(source) for window in self.windows)
        return kept if any(own is not None for own in kept) else None

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """A leaf each."""
        return tuple(
            window.initial(replace(memory, window=own), num_rows)
            for window, own in zip(self.windows, self._kept(memory), strict=True)
        )

    @property
    def width(self) -> int | None:
        """The least of the windows' widths."""
        return min((window.width for window in self.windows if window.width is not None), default=None)

    def start(self, look: Look, leaf: Tree) -> Int[Tensor, "R G"]:
        """The last of the windows' starts."""
        starts = [window.start(own, kept) for window, own, kept in self._each(look, leaf) if window.width is not None]
        return functools.reduce(torch.maximum, starts)

    def at(self, places: Int[Tensor, "#R #G W"], look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The combined support at these places."""
        return _all(window.at(places, own, kept) for window, own, kept in self._each(look, leaf))

    def forward(self, look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The combined support."""
        return _all(window(own, kept) for window, own, kept in self._each(look, leaf))

    def observe(self, attended: Attended, look: Look, leaf: Tree) -> Tree:
        """Every window sees the weights."""
        return tuple(window.observe(attended, own, kept) for window, own, kept in self._each(look, leaf))

    def observe_at(self, places: Int[Tensor, "#R #G W"], attended: Attended, look: Look, leaf: Tree) -> Tree:
        """Every window sees the weights at these places."""
        return tuple(window.observe_at(places, attended, own, kept) for window, own, kept in self._each(look, leaf))

    @property
    def observes_all(self) -> bool:
        """Whether any of the windows does."""
        return any(window.observes_all for window in self.windows)

    def _each(self, look: Look, leaf: Tree) -> Iterator[tuple[AbstractWindow, Look, Tree]]:
        """Every window, its look and its leaf."""
        leaves = leaf if leaf is not None else (None,) * len(self.windows)
        kept = self._kept(look.memory)
        looks = [look if own is None else look.with_memory(window=own) for own in kept]
        return zip(self.windows, looks, leaves, strict=True)

    def _kept(self, memory: Memory) -> tuple[Tree, ...]:
        """What every window keeps per source."""
        return memory.window if memory.window is not None else (None,) * len(self.windows)


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
