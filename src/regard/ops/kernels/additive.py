"""Kernels of additive energies for the CPU, without tensors of size T·S·D, and one exponential per row and feature.

tanh(x) = 1 - 2 / (1 + e^{2x}) and e^{2(q+k)} = e^{2q} · e^{2k}: with A = e^{2q} and B = e^{2k} computed once a row,

    e_ts = 2 Σ_d v_d (½ - r_tsd),   r = 1 / (1 + A B),   1 - tanh² = 4 r (1 - r).

The division of work depends on sizes only, so that results do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.kernels import additive_rectifier as rectifier
from regard.ops.kernels import additive_tangent as tangent
from regard.ops.threads import parallel_for

CACHE_ELEMENTS = 1 << 15
"""Powers of keys of a block, which fit a core's cache."""
MIN_UNITS = 16
"""The least number of parts of a small batch, about."""


def energies(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    """(B, *heads, T, S) from float32 or float64."""
    heads = _heads(v)
    (count, size), steps, positions = heads.shape, query.shape[1], keys.shape[1]
    groups = query.shape[0] * count
    out = query.new_empty(groups, steps, positions)
    if out.numel() and size:
        # steps of few groups are divided into chunks of at least 16, as each chunk computes the powers of all keys
        chunks = max(1, min(-(-MIN_UNITS // groups), steps // 16))
        result = out.numpy()
        inputs: tuple[Any, ...] = (*_flat(query), *_flat(keys), heads)
        if slope is None:
            width = min(max(1, CACHE_ELEMENTS // size), positions)  # keys of a block
            kernel, arguments = (
                tangent.energies,
                (*inputs, tangent.REACH[heads.dtype], tangent.LARGE[heads.dtype], result, width, chunks),
            )
        else:
            kernel, arguments = rectifier.energies, (*inputs, heads.dtype.type(slope), result, chunks)
        parallel_for(kernel, arguments, groups * chunks, out.numel() * size)
    else:
        out.zero_()
    return out.view(query.shape[0], *v.shape[:-1], steps, positions)


def gradients(
    gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor, slope: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, keys and v, of the shapes of each, from that of the energies (B, *heads, T, S)."""
    heads = _heads(v)
    (count, size), sentences, steps, positions = heads.shape, query.shape[0], query.shape[1], keys.shape[1]
    groups = sentences * count
    # kernels fill every number; without work, gradients are zeros
    busy = bool(gradient.numel() and size)
    make = query.new_empty if busy else query.new_zeros
    grad_query, grad_keys = (make(sentences, x.shape[1], count, size) for x in (query, keys))
    grad_v = make(groups, size)
    if busy:
        # slices of at least 32 features, for enough parts and so that a slice's powers of keys fit the cache
        slices = max(1, min(max(-(-MIN_UNITS // groups), positions * size // CACHE_ELEMENTS), size // 32))
        g = gradient.detach().reshape(groups, steps, positions).contiguous().numpy()
        results = (g, grad_query.numpy(), grad_keys.numpy(), grad_v.numpy(), slices)
        inputs: tuple[Any, ...] = (*_flat(query), *_flat(keys), heads)
        if slope is None:
            kernel, arguments = (
                tangent.gradients,
                (*inputs, tangent.REACH[heads.dtype], tangent.LARGE[heads.dtype], *results),
            )
        else:
            kernel, arguments = rectifier.gradients, (*inputs, heads.dtype.type(slope), *results)
        parallel_for(kernel, arguments, groups * slices, gradient.numel() * size)
    # (B·heads, D) of the groups, summed over sentences in a fixed order
    shares = grad_v.view(sentences, count, size).sum(0)
    return grad_query.view(query.shape), grad_keys.view(keys.shape), shares.view(v.shape)


def _flat(x: Tensor) -> tuple[Any, tuple[int, ...]]:
    """The numbers of (B, S, *heads, D), and the strides of sentences, rows and heads.

    By strides a view with gaps, such as a part of a wider projection, is not copied.
    """
    x = x.detach()
    if x.stride(-1) != 1:
        x = x.contiguous()
    strides = x.stride()
    if x.is_contiguous():
        flat = x.view(-1)
    else:
        # all memory from the first number to the last, with the gaps
        flat = x.as_strided((1 + sum((n - 1) * stride for n, stride in zip(x.shape, strides, strict=True)),), (1,))
    return flat.numpy(), strides[:3] if len(strides) == 4 else (*strides[:2], 0)


def _heads(v: Tensor) -> Any:
    """(heads, D), one head where v has none."""
    heads = v.detach().clone(memory_format=torch.contiguous_format)  # numpy would pin a parameter's memory
    return (heads if heads.dim() == 2 else heads[None]).numpy()
