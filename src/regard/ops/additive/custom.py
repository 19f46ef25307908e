"""Additive energies as torch's compiler and exporter see them: operators with known shapes and a known gradient.

A compiled program calls the kernels through them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.additive import kernels_for


@torch.library.custom_op(
    "regard::additive_energies",
    mutates_args=(),
    schema="(Tensor query, Tensor keys, Tensor v, float? slope) -> Tensor",
)
def _operation(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    return kernels_for(query.device.type).energies(query, keys, v, slope)


@torch.library.custom_op(
    "regard::additive_gradients",
    mutates_args=(),
    schema="(Tensor gradient, Tensor query, Tensor keys, Tensor v, float? slope) -> (Tensor, Tensor, Tensor)",
)
def _gradients(
    gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor, slope: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    return kernels_for(query.device.type).gradients(gradient, query, keys, v, slope)


@_operation.register_fake
def _(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    return query.new_empty(query.shape[0], *v.shape[:-1], query.shape[1], keys.shape[1])


@_gradients.register_fake
def _(gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), keys.new_empty(keys.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.slope = inputs
    ctx.save_for_backward(*tensors)


def _pull_back(ctx: Any, gradient: Tensor) -> Any:
    return *torch.ops.regard.additive_gradients(gradient, *ctx.saved_tensors, ctx.slope), None


_operation.register_autograd(_pull_back, setup_context=_keep)
