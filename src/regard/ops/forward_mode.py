"""Autograd functions with a derivative in forward mode (`jvp`), which torch's compiler refuses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


def apply(function: type[Function], with_tangents: type[Function], *inputs: Any) -> Any:
    """Calls the function that has `jvp`; where torch compiles, the one without, since the compiler refuses `jvp`."""
    applied = function if torch.compiler.is_compiling() else with_tangents
    return applied.apply(*inputs)


class FromOutput(Function):
    """A function whose derivative follows from its output, which is all that it keeps."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the output for the backward pass."""
        ctx.save_for_backward(output)


class FromOutputWithTangents(FromOutput):
    """The same for functions that have `jvp`."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the output for derivatives in reverse and in forward mode."""
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)
