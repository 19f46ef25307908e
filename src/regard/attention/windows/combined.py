"""Windows that combine others, or apply another one only in evaluation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.contract import (
    AbstractWindow,
    AbstractWrapper,
    Attended,
    Memory,
    Parts,
    Source,
    StepInputs,
    Support,
    Tree,
)
from regard.shapes import Int


class Intersection(AbstractWindow):
    """The positions that all of several windows allow; log priors are added, gains multiplied."""

    def __init__(self, windows: Sequence[AbstractWindow]) -> None:
        super().__init__()
        self.windows = cast(Sequence[AbstractWindow], nn.ModuleList(windows))
        self.is_recurrent = any(window.is_recurrent for window in windows)
        self.uses_query = any(window.uses_query for window in windows)
        self.has_gain = any(window.has_gain for window in windows)
        self.is_bounded = all(window.is_bounded for window in windows)
        self.trains_differently = any(window.trains_differently for window in windows)
        self.sources = tuple(key for window in windows for key in window.sources)

    def unsupported_reason(self, parts: Parts) -> str | None:
        reasons = (window.unsupported_reason(parts) for window in self.windows)
        return next((reason for reason in reasons if reason is not None), None)

    def prepare(self, source: Source) -> Tree:
        """A tuple of the windows' fields, or None if all are None."""
        prepared = tuple(window.prepare(source) for window in self.windows)
        return prepared if any(field is not None for field in prepared) else None

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """A tuple of the windows' states."""
        return tuple(
            window.initial(replace(memory, window=field), num_rows)
            for window, field in zip(self.windows, self._prepared(memory), strict=True)
        )

    @property
    def width(self) -> int | None:
        """The smallest of the windows' widths."""
        return min((window.width for window in self.windows if window.width is not None), default=None)

    def start(self, step_inputs: StepInputs, state: Tree) -> Int[Tensor, "R G"]:
        """The last of the windows' starts."""
        starts = [
            window.start(*inputs) for window, *inputs in self._each(step_inputs, state) if window.width is not None
        ]
        return functools.reduce(torch.maximum, starts)

    def at(self, positions: Int[Tensor, "#R #G W"], step_inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        return _combined(window.at(positions, *inputs) for window, *inputs in self._each(step_inputs, state))

    def forward(self, step_inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        return _combined(window(*inputs) for window, *inputs in self._each(step_inputs, state))

    def observe(self, attended: Attended, step_inputs: StepInputs, state: Tree) -> Tree:
        return tuple(window.observe(attended, *inputs) for window, *inputs in self._each(step_inputs, state))

    def observe_at(
        self, positions: Int[Tensor, "#R #G W"], attended: Attended, step_inputs: StepInputs, state: Tree
    ) -> Tree:
        return tuple(
            window.observe_at(positions, attended, *inputs) for window, *inputs in self._each(step_inputs, state)
        )

    @property
    def observes_all(self) -> bool:
        return any(window.observes_all for window in self.windows)

    def _each(self, inputs: StepInputs, state: Tree) -> Iterator[tuple[AbstractWindow, StepInputs, Tree]]:
        """Every window, its inputs and its state."""
        states = state if state is not None else (None,) * len(self.windows)
        prepared = self._prepared(inputs.memory)
        each = [inputs if field is None else inputs.with_memory(window=field) for field in prepared]
        return zip(self.windows, each, states, strict=True)

    def _prepared(self, memory: Memory) -> tuple[Tree, ...]:
        """The windows' fields of the memory."""
        return memory.window if memory.window is not None else (None,) * len(self.windows)


def _combined(results: Iterable[tuple[Support, Tree]]) -> tuple[Support, Tree]:
    """The intersection of the supports, and the states."""
    combined, states = Support(), []
    for support, state in results:
        combined = Support(
            _merged(combined.support, support.support, torch.logical_and),
            _merged(combined.log_prior, support.log_prior, torch.add),
            _merged(combined.gain, support.gain, torch.mul),
        )
        states.append(state)
    return combined, tuple(states)


def _merged(a: Tensor | None, b: Tensor | None, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    """combine(a, b); None is neutral."""
    if a is None or b is None:
        return b if a is None else a
    return combine(a, b)


class InEvaluation(AbstractWrapper, AbstractWindow):
    """Another window in evaluation mode, and all positions in training.

    Speech synthesis often has a window that training has not. The window's state is updated in training too, so that a
    state may pass from one mode to the other: with a recurrent window, training takes its steps one after the other.

    >>> import torch
    >>> from regard.attention import ArgmaxWindow, StepInputs, Memory
    >>> window, memory = InEvaluation(ArgmaxWindow(back=0, front=1)), Memory(read=torch.zeros(1, 4, 1, 1))
    >>> inputs = StepInputs(torch.zeros(1, 1), memory, torch.zeros(1, dtype=torch.long))
    >>> state = window.initial(memory, 1)
    >>> window(inputs, state)[0].support is None
    True
    >>> window.eval()(inputs, state)[0].support.tolist()
    [[[True, True, False, False]]]
    """

    window: AbstractWindow
    trains_differently = True

    def __init__(self, window: AbstractWindow) -> None:
        super().__init__(window, "window")

    @property
    def width(self) -> int | None:
        return None if self.training else self.window.width

    def start(self, inputs: StepInputs, state: Tree) -> Int[Tensor, "R G"]:
        return self.window.start(inputs, state)

    def at(self, positions: Int[Tensor, "#R #G W"], inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        support, state = self.window.at(positions, inputs, state)
        return Support() if self.training else support, state

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        support, state = self.window(inputs, state)
        return Support() if self.training else support, state
