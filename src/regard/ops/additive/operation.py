"""Additive energies and their gradients, by the fastest implementation that takes the inputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.ops.additive import reference
from regard.ops.additive.activation import Activation, find_slope
from regard.ops.additive.autograd import run
from regard.ops.choose import Implementation, compiles, missing, refuse_kernels, refuse_numba
from regard.shapes import Float, describe


def additive_energies(
    query: Float[Tensor, "B T *heads D"],
    keys: Float[Tensor, "B S *heads D"],
    v: Float[Tensor, "*heads D"],
    activation: Activation = "tanh",
    *,
    slope: float | None = None,
) -> Float[Tensor, "B *heads T S"]:
    """e_ts = Σ_d v_d · tanh(q_td + k_sd), for every head where there are heads; or a rectifier in place of tanh.

    Nothing of size T·S·D exists, neither forward nor backward. Half types are computed in float32.

    Args:
        slope: of leaky_relu below 0, 0.01 if None.

    Raises:
        ShapeError: for sizes or devices that do not fit together.
        RegardError: for an unknown activation, or a slope without leaky_relu.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), A.1.2, with query and keys already projected.

    >>> additive_energies(torch.zeros(1, 2, 3), torch.zeros(1, 4, 3), torch.ones(3)).shape
    torch.Size([1, 2, 4])
    """
    negative_slope = find_slope(activation, slope)
    inputs, kind = _working(query, keys, v)
    if compiles():
        energies: Tensor = torch.ops.regard.additive_energies(*inputs, negative_slope)
    elif refuse_kernels(*inputs) is not None:
        energies = reference.energies(*inputs, negative_slope)
    else:
        energies = run(kernels_for(query.device.type), negative_slope, *inputs)
    return energies if energies.dtype == kind else energies.to(kind)


def additive_gradients(
    gradient: Float[Tensor, "B *heads T S"],
    query: Float[Tensor, "B T *heads D"],
    keys: Float[Tensor, "B S *heads D"],
    v: Float[Tensor, "*heads D"],
    activation: Activation = "tanh",
    *,
    slope: float | None = None,
) -> tuple[Float[Tensor, "B T *heads D"], Float[Tensor, "B S *heads D"], Float[Tensor, "*heads D"]]:
    """The gradients of query, keys and v, for passes that do without autograd; in float32 or float64."""
    inputs, _ = _working(query, keys, v)
    kernels = kernels_for(query.device.type)
    return kernels.gradients(gradient.to(inputs[0].dtype), *inputs, find_slope(activation, slope))


def _working(query: Tensor, keys: Tensor, v: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], torch.dtype]:
    """The inputs in the working type, float32 or wider, and the type of the result."""
    if (
        query.dim() not in (3, 4)
        or query.shape[0] != keys.shape[0]
        or query.shape[2:] != keys.shape[2:]
        or query.shape[2:] != v.shape
        or not query.device == keys.device == v.device
    ):
        shown = {"query": ("B T H D", query), "keys": ("B S H D", keys), "v": ("H D", v)}
        if query.dim() == 3:
            shown = {name: (letters.replace("H ", ""), x) for name, (letters, x) in shown.items()}
        raise ShapeError(
            "query, keys and v must agree on B, H (heads) and D, and be on one device.\n"
            + describe(shown)
            + f"\n  They are on {query.device}, {keys.device} and {v.device}. Without heads: (B, T, D), (B, S, D), (D)."
        )
    kind = query.dtype
    if kind == keys.dtype == v.dtype and kind in (torch.float32, torch.float64):
        return (query, keys, v), kind
    kind = torch.promote_types(torch.promote_types(kind, keys.dtype), v.dtype)
    working = torch.float32 if kind.itemsize < 4 else kind
    return (query.to(working), keys.to(working), v.to(working)), kind


def _refuse_triton(*inputs: Tensor, **options: Any) -> str | None:
    if inputs and inputs[0].device.type != "cuda":
        return f"the inputs are on {inputs[0].device.type} and the kernels for a GPU"
    if not torch.cuda.is_available():
        return "there is no GPU that torch can use"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "TRITON_INTERPRET=1 would run the kernels in Python"
    return missing("triton", "regard.ops.additive.triton")


def _with(
    name: str, query: Tensor, keys: Tensor, v: Tensor, activation: Activation = "tanh", *, slope: float | None = None
) -> Tensor:
    """The energies by the named implementation."""
    working, kind = _working(query, keys, v)
    return run(import_module(f"regard.ops.additive.{name}"), find_slope(activation, slope), *working).to(kind)


def _refuse(device: Callable[..., str | None], *inputs: Tensor, **options: Any) -> str | None:
    return refuse_kernels(*inputs) or device(*inputs)


_KERNELS: dict[str, Callable[..., str | None]] = {
    "triton": _refuse_triton,
    "numba": partial(refuse_numba, "regard.ops.additive.numba"),
    "chunked": lambda *inputs: None,
}
"""Modules of kernels, the fastest first, and why each cannot compute on a device."""

ADDITIVE_ENERGIES = (
    *(Implementation(name, partial(_with, name), partial(_refuse, device)) for name, device in _KERNELS.items()),
    Implementation("reference", reference.additive_energies),
)


@cache
def kernels_for(device: str) -> ModuleType:
    """The module of the first kernels that compute on a device."""
    example = torch.empty(0, device=device)
    name = next(name for name, refuse in _KERNELS.items() if refuse(example) is None)
    return import_module(f"regard.ops.additive.{name}")
