"""Compiled loops around products of matrices, a block of sentences at a time.

Of each block u, what the filters say, is made in a buffer by the library for products. A loop adds q and k on the fly;
in the backward pass it puts the derivative by the tangent's argument in its place. With one row and one head a sentence
that is the gradient by keys and needs no further room.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.ops.compiled.elementary import LARGE
from regard.ops.location.numba import tangent
from regard.ops.location.numba.filters import Filters
from regard.ops.precision import without_autocast
from regard.ops.threads import spread

BLOCK = 1 << 19
"""Numbers of u that are held at once, or those of one sentence."""


def energies(query: Tensor, keys: Tensor, past: Tensor, filters: Tensor, projection: Tensor, v: Tensor) -> Tensor:
    """(B, K, H, S) from float32 or float64."""
    out = query.new_empty(*query.shape[:3], keys.shape[1])
    if not out.numel() or not v.numel():
        return out.zero_()
    with torch.no_grad(), without_autocast("cpu"):
        taken, asked = Filters(filters, projection), _asked(query, keys, v)
        buffer = None
        for start, stop in _blocks(query, keys):
            buffer = _buffer(query, keys, stop - start) if buffer is None else buffer
            u = buffer[:, : (stop - start) * query.shape[1]]
            taken.locate(past[start:stop].flatten(0, 1), u)
            given = (*(x[start:stop] for x in asked[:2]), *asked[2:], u.numpy(), out[start:stop].numpy())
            spread(tangent.energies, given, u.shape[1], u.numel())
    return out


def gradients(
    gradient: Tensor,
    query: Tensor,
    keys: Tensor,
    past: Tensor,
    filters: Tensor,
    projection: Tensor,
    v: Tensor,
    *,
    grad_past: bool = True,
) -> tuple[Tensor | None, ...]:
    """By each of the inputs, of the shapes of each; by the past only where it is asked for."""
    if not gradient.numel() or not v.numel():
        return tuple(torch.zeros_like(x) for x in (query, keys, past, filters, projection, v))
    hypotheses, heads, size = query.shape[1:]
    own = hypotheses == heads == 1
    with torch.no_grad(), without_autocast("cpu"):
        taken, asked = Filters(filters, projection), _asked(query, keys, v)
        g = gradient.contiguous()
        grad_query, shares = (torch.empty(query.shape, dtype=query.dtype) for _ in range(2))
        grad_keys = torch.empty(keys.shape, dtype=keys.dtype)
        found = torch.empty(past.shape, dtype=past.dtype) if grad_past else None
        buffer = grad_keys.view(1, *keys.shape[:2], size) if own else None
        for start, stop in _blocks(query, keys):
            rows = (stop - start) * hypotheses
            buffer = _buffer(query, keys, stop - start) if buffer is None else buffer
            u = buffer[:, start:stop] if own else buffer[:, :rows]
            seen = taken.locate(past[start:stop].flatten(0, 1), u)
            ranged = (*asked[:2], g.numpy(), grad_query.numpy(), shares.numpy())
            given = (*(x[start:stop] for x in ranged), *asked[2:], u.numpy())
            spread(tangent.gradients, given, rows, u.numel())
            taken.learn(u, *seen, None if found is None else found[start:stop].flatten(0, 1))
            if not own:
                grad_keys[start:stop] = u.unflatten(1, (-1, hypotheses)).sum(2).movedim(0, 2)
    return grad_query, grad_keys, found, *taken.gradients(), shares.sum((0, 1))


def _blocks(query: Tensor, keys: Tensor) -> Iterator[tuple[int, int]]:
    """Of sentences."""
    step = max(1, BLOCK // (query.shape[1] * keys[0].numel()))
    return ((start, min(start + step, len(keys))) for start in range(0, len(keys), step))


def _buffer(query: Tensor, keys: Tensor, sentences: int) -> Tensor:
    """Room for u, (H, rows, S, D)."""
    return query.new_empty(query.shape[2], sentences * query.shape[1], keys.shape[1], query.shape[3])


def _asked(query: Tensor, keys: Tensor, v: Tensor) -> tuple[Any, ...]:
    v = v.detach().clone()  # numpy would pin a parameter's memory
    arrays = tuple(x.detach().contiguous().numpy() for x in (query, keys, v))
    return *arrays, LARGE[arrays[2].dtype]
