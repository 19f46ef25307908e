"""A window that holds only in evaluation."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.attention.contract import AbstractWindow, Attended, Look, Memory, Source, Support, Tree
from regard.shapes import Int


class InEvaluation(AbstractWindow):
    """Another window in evaluation mode, and no window at all in training.

    Speech synthesis is held to a window that it was not trained with. The state of the window is carried in training
    too, so a state may pass from one mode to the other; a window that follows attention therefore makes training take
    its steps one after the other.

    >>> import torch
    >>> from regard.attention import ArgmaxWindow, Look, Memory
    >>> window, memory = InEvaluation(ArgmaxWindow(back=0, front=1)), Memory(read=torch.zeros(1, 4, 1, 1))
    >>> look, leaf = Look(torch.zeros(1, 1), memory, torch.zeros(1, dtype=torch.long)), window.initial(memory, 1)
    >>> window(look, leaf)[0].support is None
    True
    >>> window.eval()(look, leaf)[0].support.tolist()
    [[[True, True, False, False]]]
    """

    trains_differently = True

    def __init__(self, window: AbstractWindow) -> None:
        super().__init__()
        self.window = window
        self.is_recurrent = window.is_recurrent
        self.uses_query = window.uses_query
        self.has_gain = window.has_gain
        self.is_bounded = window.is_bounded
        self.sources = window.sources

    def refuse(self, mechanism: Any) -> str | None:
        """What the window objects to."""
        return self.window.refuse(mechanism)

    def prepare(self, source: Source) -> Tree:
        """What the window keeps."""
        return self.window.prepare(source)

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """The window's leaf."""
        return self.window.initial(memory, num_rows)

    @property
    def width(self) -> int | None:
        """The window's width; none in training."""
        return None if self.training else self.window.width

    def start(self, look: Look, leaf: Tree) -> Int[Tensor, "R G"]:
        """Where the window starts."""
        return self.window.start(look, leaf)

    def at(self, places: Int[Tensor, "#R #G W"], look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The window's support at these places in evaluation, none in training."""
        support, leaf = self.window.at(places, look, leaf)
        return Support() if self.training else support, leaf

    def forward(self, look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The window's support in evaluation, none in training."""
        support, leaf = self.window(look, leaf)
        return Support() if self.training else support, leaf

    def observe(self, attended: Attended, look: Look, leaf: Tree) -> Tree:
        """The window sees the weights in both modes."""
        return self.window.observe(attended, look, leaf)

    def observe_at(self, places: Int[Tensor, "#R #G W"], attended: Attended, look: Look, leaf: Tree) -> Tree:
        """The window sees the weights at these places."""
        return self.window.observe_at(places, attended, look, leaf)

    @property
    def observes_all(self) -> bool:
        """As the window."""
        return self.window.observes_all
