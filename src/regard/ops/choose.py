"""The choice among an operation's implementations, with reasons."""

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
    """An implementation of an operation.

    Args:
        name: of the algorithm: reference, parallel, numba, triton.
        function: the operation.
        unsupported_reason: why it cannot take some inputs, or None; without inputs, why it is unavailable on this
            machine.
    """

    name: str
    function: Callable[..., Any]
    unsupported_reason: Callable[..., str | None] = lambda *inputs, **options: None


def loaded(module: str, function: str) -> Callable[..., Any]:
    """A function of a module that is imported at the first call, since kernels are slow to import."""
    return lambda *inputs, **options: getattr(import_module(module), function)(*inputs, **options)


def choose(implementations: tuple[Implementation, ...], *inputs: Any, **options: Any) -> Implementation:
    """The first implementation that supports the inputs; the last one, the reference, supports all."""
    for implementation in implementations[:-1]:
        if implementation.unsupported_reason(*inputs, **options) is None:
            return implementation
    return implementations[-1]


def describe(operation: str, implementations: tuple[Implementation, ...], *inputs: Any, **options: Any) -> str:
    """A line for each implementation in order: whether it is taken, and why not."""
    taken = choose(implementations, *inputs, **options)
    lines = []
    for implementation in implementations:
        reason = implementation.unsupported_reason(*inputs, **options)
        state = "taken" if implementation is taken else f"refused: {reason}" if reason else "not needed"
        lines.append(f"  {implementation.name}: {state}")
    return "\n".join([operation, *lines])


@cache
def step_implementations(operation: str) -> tuple[Implementation, ...]:
    """The modules of an operation's functions without autograd: compiled loops, or the reference."""
    compiled, plain = f"regard.ops.kernels.{operation}", f"regard.ops.{operation}"
    return (
        Implementation("numba", partial(import_module, compiled), partial(numba_reason, compiled)),
        Implementation("reference", partial(import_module, plain)),
    )


def steps_for(operation: str, device: str) -> ModuleType:
    """The module of an operation's functions without autograd, for a type of device."""
    return choose(step_implementations(operation), stand_in(device)).function()
