"""Additive energies and their gradients, by the fastest implementation that takes the inputs."""

from __future__ import annotations

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
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import FLOATS, compiles, refuse_kernels, refuse_numba, refuse_triton, stand_in
from regard.ops.switch import switched_off
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
    inputs, kind = _working(query, keys, v)
    energies: Tensor = choose(ADDITIVE_ENERGIES, *inputs).function(*inputs, activation, slope=slope)
    return energies if energies.dtype == kind else energies.to(kind)


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
    if kind == keys.dtype == v.dtype and kind in FLOATS:
        return (query, keys, v), kind
    kind = torch.promote_types(torch.promote_types(kind, keys.dtype), v.dtype)
    working = torch.float32 if kind.itemsize < 4 else kind
    return (query.to(working), keys.to(working), v.to(working)), kind


def _compiled(
    query: Tensor, keys: Tensor, v: Tensor, activation: Activation = "tanh", *, slope: float | None = None
) -> Tensor:
    """As an operation that the compiler does not look into."""
    return torch.ops.regard.additive_energies(query, keys, v, find_slope(activation, slope))


def _with(
    kernels: Implementation,
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    activation: Activation = "tanh",
    *,
    slope: float | None = None,
) -> Tensor:
    """By certain kernels."""
    kind = query.dtype
    inputs = (query, keys, v) if kind in FLOATS else _working(query, keys, v)[0]
    energies = run(kernels.function(), find_slope(activation, slope), *inputs)
    return energies if energies.dtype == kind else energies.to(kind)


def _refuse_compiled(*inputs: Any, **options: Any) -> str | None:
    if not compiles():
        return "torch.compile does not look"
    return None if torch.compiler.is_dynamo_compiling() else switched_off()  # what it traces cannot ask the switch


def _refuse(kernels: Implementation, *inputs: Any, **options: Any) -> str | None:
    return kernels.refuse(*inputs[:1]) or refuse_kernels(*inputs[:3])


@cache
def _module(name: str) -> ModuleType:
    return import_module(f"regard.ops.additive.{name}")


KERNELS = (
    Implementation("numba", partial(_module, "numba"), partial(refuse_numba, "regard.ops.additive.numba")),
    Implementation("triton", partial(_module, "triton"), partial(refuse_triton, "regard.ops.additive.triton")),
    Implementation("chunked", partial(_module, "chunked")),
)
"""Modules of kernels: those for the CPU, those for a GPU, and those for everything else."""

ADDITIVE_ENERGIES = (
    Implementation("compiled", _compiled, _refuse_compiled),
    *(Implementation(kernels.name, partial(_with, kernels), partial(_refuse, kernels)) for kernels in KERNELS),
    Implementation("reference", reference.additive_energies),
)


def kernels_for(device: str) -> ModuleType:
    """The module of the first kernels that compute on a type of device."""
    return choose(KERNELS, stand_in(device)).function()


from regard.ops.additive import custom as custom  # noqa: E402 - registers operators, which need the above
