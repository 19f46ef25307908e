"""Which implementation of an operation is taken, and why the others were not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

from regard.ops.eligibility import numba_reason, stand_in


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to compute an operation.

    Args:
        name: the algorithm's name: reference, parallel, numba, triton.
        function: computes it.
        unsupported_reason: why it cannot take some inputs, or None; without inputs, whether it is here at all.
    """

    name: str
    function: Callable[..., Any]
    unsupported_reason: Callable[..., str | None] = lambda *inputs, **options: None


def loaded(module: str, function: str) -> Callable[..., Any]:
    """A function of a module that is imported at the first call, as kernels are slow to import."""
    return lambda *inputs, **options: getattr(import_module(module), function)(*inputs, **options)


def choose(implementations: tuple[Implementation, ...], *inputs: Any, **options: Any) -> Implementation:
    """The first implementation without a reason against it; the last one, the reference, has none."""
    for implementation in implementations[:-1]:
        if implementation.unsupported_reason(*inputs, **options) is None:
            return implementation
    return implementations[-1]


def describe(operation: str, implementations: tuple[Implementation, ...], *inputs: Any, **options: Any) -> str:
    """Every implementation in order, with what was taken and why others were not."""
    taken = choose(implementations, *inputs, **options)
    lines = []
    for implementation in implementations:
        reason = implementation.unsupported_reason(*inputs, **options)
        state = "taken" if implementation is taken else f"refused: {reason}" if reason else "not needed"
        lines.append(f"  {implementation.name}: {state}")
    return "\n".join([operation, *lines])


@cache
def step_implementations(operation: str) -> tuple[Implementation, ...]:
    """The modules of what an operation does in a step: compiled loops, or the reference."""
    compiled, plain = f"regard.ops.kernels.{operation}", f"regard.ops.{operation}"
    return (
        Implementation("numba", partial(import_module, compiled), partial(numba_reason, compiled)),
        Implementation("reference", partial(import_module, plain)),
    )


def steps_for(operation: str, device: str) -> ModuleType:
    """The module of what an operation does in a step, for a type of device."""
    return choose(step_implementations(operation), stand_in(device)).function()
