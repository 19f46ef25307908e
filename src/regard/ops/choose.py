"""Which implementation of an operation is taken, and why the others were not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


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
    return next(one for one in implementations if one.refuse(*inputs, **options) is None)


def describe(operation: str, implementations: tuple[Implementation, ...], *inputs: Any, **options: Any) -> str:
    """Every implementation in order, with what was taken and why others were not."""
    taken = choose(implementations, *inputs, **options)
    lines = []
    for one in implementations:
        reason = one.refuse(*inputs, **options)
        state = "taken" if one is taken else f"refused: {reason}" if reason else "not needed"
        lines.append(f"  {one.name}: {state}")
    return "\n".join([operation, *lines])


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


def refuse_numba(module: str, *inputs: Any, **options: Any) -> str | None:
    """Why a module of kernels for the CPU cannot take some inputs, or None."""
    if inputs and inputs[0].device.type != "cpu":
        return f"the inputs are on {inputs[0].device.type} and the kernels for the CPU"
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return "NUMBA_DISABLE_JIT says that nothing shall be compiled"
    return missing("numba", module)


@cache
def steps_for(operation: str, device: str) -> ModuleType:
    """The module of what an operation does in a step, for a device: compiled loops, or the reference."""
    package = f"regard.ops.{operation}"
    compiled = device == "cpu" and refuse_numba(f"{package}.numba") is None
    return import_module(f"{package}.{'numba' if compiled else 'reference'}")
