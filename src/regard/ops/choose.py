"""Which implementation of an operation is taken, and why the others were not."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from regard.ops.switch import switched_off

_PLAIN = (Tensor, torch.nn.Parameter)


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to compute an operation.

    Args:
        name: the algorithm's name: reference, parallel, numba, triton.
        function: computes it.
        refuse: says why it cannot take some inputs, or None when it can; without inputs, whether it is here at all.
    """

    name: str
    function: Callable[..., Any]
    refuse: Callable[..., str | None] = lambda *inputs, **options: None


def choose(implementations: tuple[Implementation, ...], *inputs: Any, **options: Any) -> Implementation:
    """The first implementation that does not refuse; the last one, the reference, never does."""
    for implementation in implementations[:-1]:
        if implementation.refuse(*inputs, **options) is None:
            return implementation
    return implementations[-1]


def describe(operation: str, implementations: tuple[Implementation, ...], *inputs: Any, **options: Any) -> str:
    """Every implementation in order, with what was taken and why others were not."""
    taken = choose(implementations, *inputs, **options)
    lines = []
    for one in implementations:
        reason = one.refuse(*inputs, **options)
        state = "taken" if one is taken else f"refused: {reason}" if reason else "not needed"
        lines.append(f"  {one.name}: {state}")
    return "\n".join([operation, *lines])


_MAY_LOAD: ContextVar[bool] = ContextVar("may load kernels", default=True)


@contextmanager
def only_loaded_kernels() -> Iterator[None]:
    """Within it, kernels for the CPU that this process has not loaded yet are refused, and the plain ways are taken.

    For work that is known to be small: loading numba and the first kernels takes most of a second, even when the
    kernels are compiled already and only read from disk.
    """
    token = _MAY_LOAD.set(False)
    try:
        yield
    finally:
        _MAY_LOAD.reset(token)


@cache
def missing(package: str, module: str) -> str | None:
    """Why a module of kernels that needs a package cannot be used here, or None."""
    if find_spec(package) is None:
        return f"{package} is not installed"
    try:
        import_module(module)
    except ImportError as error:
        return f"{package} cannot be imported: {error}"
    return None


def refuse_kernels(*inputs: Any) -> str | None:
    """Why no kernel of ours may compute these inputs, or None.

    A kernel gives the values of plain tensors and, through `torch.autograd.Function`, their gradients. Whatever else
    torch asks of an operation (a graph of it, a derivative in forward mode, a batched form, a result without numbers)
    it gets from the reference, whose operations are torch's. Every operation asks here first.

    Args:
        inputs: those of the operation; what is not a tensor is not looked at.
    """
    if torch.compiler.is_compiling():
        return "the compiler cannot see into kernels"
    if (reason := switched_off()) is not None:
        return reason
    if torch._C._are_functorch_transforms_active():
        return "torch.func cannot see into kernels"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace cannot see into kernels"
    if torch._C._len_torch_dispatch_stack() > 0:
        return "a dispatch mode (make_fx, FakeTensorMode, FlopCounterMode, ...) cannot see into kernels"
    if forward_ad._current_level >= 0:
        return "kernels have no derivatives in forward mode"
    for x in inputs:
        if isinstance(x, Tensor) and type(x) not in _PLAIN:
            return f"the kernels take plain tensors and not {type(x).__name__}"
    return None


def compiles() -> bool:
    """Whether torch.compile or torch.export looks at what is called, and not at a derivative or a batch of it."""
    return torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()


def refuse_numba(module: str, *inputs: Any, **options: Any) -> str | None:
    """Why a module of kernels for the CPU cannot take some inputs, or None."""
    if inputs and inputs[0].device.type != "cpu":
        return f"the inputs are on {inputs[0].device.type} and the kernels for the CPU"
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return "NUMBA_DISABLE_JIT says that nothing shall be compiled"
    if module not in sys.modules and not _MAY_LOAD.get():
        return "the kernels are not loaded yet, and loading them takes longer than the work"
    return missing("numba", module)


def steps_for(operation: str, device: str) -> ModuleType:
    """The module of what an operation does in a step, for a device: compiled loops, or the reference."""
    package = f"regard.ops.{operation}"
    compiled = device == "cpu" and refuse_numba(f"{package}.numba") is None
    return import_module(f"{package}.{'numba' if compiled else 'reference'}")
