"""Who asks for the weights of attention at present: recorders, which hold for a thread and change no module.

A mechanism reports its weights if a recorder wants them. A path that computes attention without calling the mechanism
reports them in its place, or is not eligible meanwhile (`eligibility.module_reason`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from regard.shapes import Float

Weights = Float[Tensor, "R H T S"]


class AbstractRecorder:
    """Takes the weights of the attentions that it wants."""

    def wants(self, attention: nn.Module) -> bool:
        """Whether the weights of an attention are to be reported."""
        raise NotImplementedError

    def holds(self, module: nn.Module) -> bool:
        """Whether a module is one of these attentions, or a part of one."""
        raise NotImplementedError

    def take(self, attention: nn.Module, weights: Weights) -> None:
        """The weights of one call, R rows and T steps; they belong to the caller."""
        raise NotImplementedError


_ACTIVE: ContextVar[tuple[AbstractRecorder, ...]] = ContextVar("regard_recorders", default=())


def active() -> tuple[AbstractRecorder, ...]:
    """The recorders of this thread; none in what torch.compile traces, nor in a pass that is run again backward."""
    if torch.compiler.is_compiling():
        return ()
    recorders = _ACTIVE.get()
    # checkpoints run their forward pass a second time within the backward pass
    return recorders if recorders and not recomputes() else ()


def recomputes() -> bool:
    """Whether autograd is running backward in this thread."""
    running: int = torch._C._current_graph_task_id()
    return running != -1


def wanted(attention: nn.Module) -> bool:
    """Whether the weights of an attention are to be reported."""
    recorders = active()
    return bool(recorders) and any(recorder.wants(attention) for recorder in recorders)


def held(module: nn.Module) -> bool:
    """Whether a module is an attention whose weights are recorded, or a part of one."""
    recorders = active()
    return bool(recorders) and any(recorder.holds(module) for recorder in recorders)


def report(attention: nn.Module, weights: Weights) -> None:
    """Gives the weights (R, H, T, S) of one call to the recorders that want them."""
    for recorder in active():
        if recorder.wants(attention):
            recorder.take(attention, weights)


@contextmanager
def activated(*recorders: AbstractRecorder) -> Iterator[None]:
    """Within it these are the recorders of this thread, and no others."""
    token = _ACTIVE.set(recorders)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def silent() -> AbstractContextManager[None]:
    """Within it nothing is wanted: the caller reports what is computed."""
    return activated() if active() else nullcontext()


def changed(change: Callable[[Tensor], Tensor]) -> AbstractContextManager[None]:
    """Within it weights are changed before they are taken."""
    recorders = active()
    return activated(*(_Changed(recorder, change) for recorder in recorders)) if recorders else nullcontext()


def joined() -> AbstractContextManager[None]:
    """Within it the steps of each attention are collected; at the end they are reported as one call of T steps."""
    return _joined() if active() else nullcontext()


@contextmanager
def _joined() -> Iterator[None]:
    steps = tuple(_Steps(recorder) for recorder in active())
    with activated(*steps):
        yield
    for each in steps:
        each.report()


class _Through(AbstractRecorder):
    """Wants what another recorder wants."""

    def __init__(self, recorder: AbstractRecorder) -> None:
        self.recorder = recorder

    def wants(self, attention: nn.Module) -> bool:
        return self.recorder.wants(attention)

    def holds(self, module: nn.Module) -> bool:
        return self.recorder.holds(module)


class _Changed(_Through):
    def __init__(self, recorder: AbstractRecorder, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__(recorder)
        self.change = change

    def take(self, attention: nn.Module, weights: Weights) -> None:
        self.recorder.take(attention, self.change(weights))


class _Steps(_Through):
    def __init__(self, recorder: AbstractRecorder) -> None:
        super().__init__(recorder)
        self.steps: dict[int, tuple[nn.Module, list[Tensor]]] = {}

    def take(self, attention: nn.Module, weights: Weights) -> None:
        self.steps.setdefault(id(attention), (attention, []))[1].append(weights)

    def report(self) -> None:
        for attention, steps in self.steps.values():
            self.recorder.take(attention, torch.cat(steps, 2))
