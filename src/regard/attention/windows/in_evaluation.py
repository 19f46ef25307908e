"""A window that applies only in evaluation."""

from __future__ import annotations

from torch import Tensor

from regard.attention.contract import AbstractWindow, AbstractWrapper, Look, Support, Tree
from regard.shapes import Int


class InEvaluation(AbstractWrapper, AbstractWindow):
    """Another window in evaluation mode, and no window at all in training.

    Speech synthesis often uses a window that training did not. The state of the window is updated in training too, so
    that a state may pass from one mode to the other; therefore a recurrent window makes training take its steps one
    after the other.

    >>> import torch
    >>> from regard.attention import ArgmaxWindow, Look, Memory
    >>> window, memory = InEvaluation(ArgmaxWindow(back=0, front=1)), Memory(read=torch.zeros(1, 4, 1, 1))
    >>> look, leaf = Look(torch.zeros(1, 1), memory, torch.zeros(1, dtype=torch.long)), window.initial(memory, 1)
    >>> window(look, leaf)[0].support is None
    True
    >>> window.eval()(look, leaf)[0].support.tolist()
    [[[True, True, False, False]]]
    """

    window: AbstractWindow
    trains_differently = True

    def __init__(self, window: AbstractWindow) -> None:
        super().__init__(window, "window")

    @property
    def width(self) -> int | None:
        """The window's width; None in training."""
        return None if self.training else self.window.width

    def start(self, look: Look, leaf: Tree) -> Int[Tensor, "R G"]:
        """The first position of the window."""
        return self.window.start(look, leaf)

    def at(self, positions: Int[Tensor, "#R #G W"], look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The window's support at these positions; in training no restriction."""
        support, leaf = self.window.at(positions, look, leaf)
        return Support() if self.training else support, leaf

    def forward(self, look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The window's support; in training no restriction."""
        support, leaf = self.window(look, leaf)
        return Support() if self.training else support, leaf
