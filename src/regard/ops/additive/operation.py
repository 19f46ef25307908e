"""Additive energies by the fastest way there is, with their gradients."""

from __future__ import annotations

import importlib
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from regard.ops.additive import reference
from regard.ops.choose import Implementation
from regard.shapes import Float


def additive_energies(
    query: Float[Tensor, "B T *heads D"], keys: Float[Tensor, "B S *heads D"], v: Float[Tensor, "*heads D"]
) -> Float[Tensor, "B *heads T S"]:
    """e_ts = Σ_d v_d · tanh(q_td + k_sd), for every head where there are heads.

    Nothing of size T·S·D exists, neither forward nor backward. Half types are computed in float32.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), A.1.2, with query and keys already projected.

    >>> additive_energies(torch.zeros(1, 2, 3), torch.zeros(1, 4, 3), torch.ones(3)).shape
    torch.Size([1, 2, 4])
    """
    inputs, kind = _working(query, keys, v)
    if torch.compiler.is_compiling():
        found: Tensor = torch.ops.regard.additive_energies(*inputs)
    else:
        found = _run(_candidates(inputs[0]), *inputs)
    return found.to(kind)


def _refuse_numba(*inputs: Tensor) -> str | None:
    if find_spec("numba") is None:
        return "numba is not installed"
    if not inputs:
        return None
    if (device := inputs[0].device.type) != "cpu":
        return f"the inputs are on {device} and the kernels for the CPU"
    (query, keys, _), _ = _working(*inputs)
    from regard.ops.additive.numba import within_reach

    if not within_reach(query, keys):
        return "a query or a key is too large for its exponential to be a normal number"
    return None


def _with(name: str, *inputs: Tensor) -> Tensor:
    """By a certain implementation."""
    working, kind = _working(*inputs)
    return _run((name, "chunked"), *working).to(kind)


ADDITIVE_ENERGIES = (
    Implementation("numba", partial(_with, "numba"), _refuse_numba),
    Implementation("chunked", partial(_with, "chunked")),
    Implementation("reference", reference.additive_energies),
)


def _candidates(query: Tensor) -> tuple[str, ...]:
    """What is asked in turn; numbers beyond the reach of one are left to the next."""
    on_cpu = query.device.type == "cpu" and find_spec("numba") is not None
    return ("numba", "chunked") if on_cpu else ("chunked",)


def _ask(candidates: tuple[str, ...], verb: str, *inputs: Tensor) -> Any:
    results = (getattr(importlib.import_module(f"regard.ops.additive.{name}"), verb)(*inputs) for name in candidates)
    return next(result for result in results if result is not None)


def _working(*inputs: Tensor) -> tuple[tuple[Tensor, ...], torch.dtype]:
    """The inputs in the type that is computed in, and the type of the result."""
    kind = inputs[0].dtype
    for other in inputs[1:]:
        kind = torch.promote_types(kind, other.dtype)
    working = torch.float32 if kind.itemsize < 4 else kind
    return tuple(x.to(working) for x in inputs), kind


def _run(candidates: tuple[str, ...], *inputs: Tensor) -> Tensor:
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return _Energies.apply(candidates, *inputs)  # type: ignore[no-untyped-call]
    return _ask(candidates, "energies", *inputs)


class _Energies(torch.autograd.Function):
    """Keeps the inputs alone; a second derivative is that of the reference."""

    @staticmethod
    def forward(ctx: Any, candidates: tuple[str, ...], query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.candidates = candidates
        ctx.save_for_backward(query, keys, v)
        return _ask(candidates, "energies", query, keys, v)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        inputs = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return None, *_ask(ctx.candidates, "gradients", gradient, *inputs)
        wanted = [x for x in inputs if x.requires_grad]
        found = iter(torch.autograd.grad(reference.additive_energies(*inputs), wanted, gradient, create_graph=True))
        return None, *(next(found) if x.requires_grad else None for x in inputs)


@torch.library.custom_op(
    "regard::additive_energies", mutates_args=(), schema="(Tensor query, Tensor keys, Tensor v) -> Tensor"
)
def _operation(query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return _ask(_candidates(query), "energies", query, keys, v)


@torch.library.custom_op(
    "regard::additive_gradients",
    mutates_args=(),
    schema="(Tensor gradient, Tensor query, Tensor keys, Tensor v) -> (Tensor, Tensor, Tensor)",
)
def _gradients(gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _ask(_candidates(query), "gradients", gradient, query, keys, v)


@_operation.register_fake
def _(query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return query.new_empty(query.shape[0], *v.shape[:-1], query.shape[1], keys.shape[1])


@_gradients.register_fake
def _(gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), keys.new_empty(keys.shape), v.new_empty(v.shape)


_operation.register_autograd(
    lambda ctx, gradient: torch.ops.regard.additive_gradients(gradient, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
