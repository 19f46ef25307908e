"""Recorders of attention's weights, which are active in a thread and change no module.

A mechanism reports its weights if a recorder wants them. A path that computes attention without calling the mechanism
reports them in its place, or is not eligible while a recorder is active (`module_weights.module_reason`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.shapes import Float

Weights = Float[Tensor, "R H T S"]


class AbstractRecorder:
    """Receives the weights of attentions."""

    def wants(self, attention: nn.Module) -> bool:
        """Whether the recorder records an attention."""
        raise NotImplementedError

    def holds(self, module: nn.Module) -> bool:
        """Whether a module is a recorded attention, or a part of one."""
        raise NotImplementedError

    def take(self, attention: nn.Module, weights: Weights) -> None:
        """Receives the weights of one call, R rows and T steps; they belong to the caller."""
        raise NotImplementedError


_ACTIVE: ContextVar[tuple[AbstractRecorder, ...]] = ContextVar("regard_recorders", default=())


def active() -> tuple[AbstractRecorder, ...]:
    """The recorders of this thread; none while torch.compile traces, nor in the second forward pass of a checkpoint."""
    if torch.compiler.is_compiling():
        return ()
    recorders = _ACTIVE.get()
    return recorders if recorders and not recomputes() else ()


def recomputes() -> bool:
    """Whether this thread runs a backward pass, in which checkpoints repeat their forward pass."""
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
    """Passes the weights (R, H, T, S) of one call to the recorders that want them."""
    _send(active(), attention, weights)


def _send(recorders: tuple[AbstractRecorder, ...], attention: nn.Module, weights: Weights) -> None:
    for recorder in recorders:
        if recorder.wants(attention):
            recorder.take(attention, weights)


@contextmanager
def activated(*recorders: AbstractRecorder) -> Iterator[None]:
    """A context in which these are the recorders of this thread, and no others."""
    token = _ACTIVE.set(recorders)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def silent() -> AbstractContextManager[None]:
    """A context without recorders, in which the caller reports the weights."""
    return activated() if active() else nullcontext()


def changed(change: Callable[[Tensor], Tensor]) -> AbstractContextManager[None]:
    """A context in which weights are changed before recorders receive them."""
    if not (recorders := active()):
        return nullcontext()
    return activated(_Relay(recorders, lambda attention, weights: _send(recorders, attention, change(weights))))


def joined() -> AbstractContextManager[None]:
    """A context that collects the steps of each attention, and reports them at its end as one call of T steps."""
    return _joined() if active() else nullcontext()


@contextmanager
def _joined() -> Iterator[None]:
    recorders, calls = active(), defaultdict[nn.Module, list[Tensor]](list)
    with activated(_Relay(recorders, lambda attention, weights: calls[attention].append(weights))):
        yield
    for attention, steps in calls.items():
        _send(recorders, attention, torch.cat(steps, 2))


@dataclass(frozen=True)
class _Relay(AbstractRecorder):
    """Wants what any of several recorders wants, and passes it to a function."""

    recorders: tuple[AbstractRecorder, ...]
    receive: Callable[[nn.Module, Tensor], None]

    def wants(self, attention: nn.Module) -> bool:
        return any(recorder.wants(attention) for recorder in self.recorders)

    def holds(self, module: nn.Module) -> bool:
        return any(recorder.holds(module) for recorder in self.recorders)

    def take(self, attention: nn.Module, weights: Weights) -> None:
        self.receive(attention, weights)
