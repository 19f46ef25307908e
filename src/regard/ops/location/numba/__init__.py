"""Location-sensitive energies as compiled loops around products of matrices, a block of sentences at a time.

    u_s = Σ_f (F_f * past)_s U_f,  e_s = Σ_d v_d tanh(q_d + k_sd + u_sd)
    grad_u_sd = g_s v_d (1 - tanh²),  grad_q_d = Σ_s grad_u_sd,  grad_k_sd = Σ grad_u_sd over the K rows that share k_s,
    grad_v_d = Σ_s g_s tanh(q_d + k_sd + u_sd),  then grad_U, grad_F and grad_past from grad_u by products

u (H, rows, S, D) of a block is made in a buffer by the library for products. A loop adds q and k on the fly; in the
backward pass it writes grad_u over u. With one row and one head in a sentence grad_u is grad_k, so u is made in the
buffer of grad_k and needs no memory of its own.
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
from regard.ops.threads import parallel_for

BLOCK_ELEMENTS = 1 << 19
"""Numbers of u that are held at once, or those of one sentence."""


def energies(query: Tensor, keys: Tensor, past: Tensor, filters: Tensor, projection: Tensor, v: Tensor) -> Tensor:
    """(B, K, H, S) from float32 or float64."""
    out = query.new_empty(*query.shape[:3], keys.shape[1])
    if not out.numel() or not v.numel():
        return out.zero_()
    with torch.no_grad(), without_autocast("cpu"):
        convolution, (q, k, *constants) = Filters(filters, projection), _arrays(query, keys, v)
        # one buffer for all blocks, of which the last may use a part
        buffer = None
        for start, stop in _blocks(query, keys):
            buffer = _buffer(query, keys, stop - start) if buffer is None else buffer
            u = buffer[:, : (stop - start) * query.shape[1]]
            convolution.locate(past[start:stop].flatten(0, 1), u)
            arguments = (q[start:stop], k[start:stop], *constants, u.numpy(), out[start:stop].numpy())
            parallel_for(tangent.energies, arguments, u.shape[1], u.numel())
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
    """The gradients of the inputs, of the shapes of each; that of the past only if `grad_past`."""
    if not gradient.numel() or not v.numel():
        return tuple(torch.zeros_like(x) for x in (query, keys, past, filters, projection, v))
    hypotheses, heads, size = query.shape[1:]
    keys_are_own = hypotheses == heads == 1  # no two rows share keys, and (B, S, 1, D) is (1, B, S, D)
    with torch.no_grad(), without_autocast("cpu"):
        convolution, (q, k, *constants) = Filters(filters, projection), _arrays(query, keys, v)
        g = gradient.contiguous()
        # shares (B, K, H, D) are the gradients of v from each row, which threads may write side by side
        grad_query, shares = (torch.empty(query.shape, dtype=query.dtype) for _ in range(2))
        grad_keys = torch.empty(keys.shape, dtype=keys.dtype)
        past_gradient = torch.empty(past.shape, dtype=past.dtype) if grad_past else None
        buffer = grad_keys.view(1, *keys.shape[:2], size) if keys_are_own else None
        for start, stop in _blocks(query, keys):
            rows = (stop - start) * hypotheses
            buffer = _buffer(query, keys, stop - start) if buffer is None else buffer
            u = buffer[:, start:stop] if keys_are_own else buffer[:, :rows]
            # u again, which would be too large to keep; then grad_u in its place, and what follows from it
            taps, features = convolution.locate(past[start:stop].flatten(0, 1), u)
            of_sentences = (q, k, g.numpy(), grad_query.numpy(), shares.numpy())
            arguments = (*(x[start:stop] for x in of_sentences), *constants, u.numpy())
            parallel_for(tangent.gradients, arguments, rows, u.numel())
            block = None if past_gradient is None else past_gradient[start:stop].flatten(0, 1)
            convolution.learn(u, taps, features, block)
            # (H, B·K, S, D), summed over the K rows of a sentence, to (B, S, H, D)
            if not keys_are_own:
                grad_keys[start:stop] = u.unflatten(1, (-1, hypotheses)).sum(2).movedim(0, 2)
    return grad_query, grad_keys, past_gradient, *convolution.gradients(), shares.sum((0, 1))


def _blocks(query: Tensor, keys: Tensor) -> Iterator[tuple[int, int]]:
    """From which sentence to which: as many as `BLOCK_ELEMENTS` allows."""
    step = max(1, BLOCK_ELEMENTS // (query.shape[1] * keys[0].numel()))
    return ((start, min(start + step, len(keys))) for start in range(0, len(keys), step))


def _buffer(query: Tensor, keys: Tensor, sentences: int) -> Tensor:
    """Room for u, (H, rows, S, D)."""
    return query.new_empty(query.shape[2], sentences * query.shape[1], keys.shape[1], query.shape[3])


def _arrays(query: Tensor, keys: Tensor, v: Tensor) -> tuple[Any, ...]:
    """Query, keys, v and the limit of powers, as kernels take them."""
    v = v.detach().clone()  # numpy would pin a parameter's memory
    arrays = tuple(x.detach().contiguous().numpy() for x in (query, keys, v))
    return *arrays, LARGE[arrays[2].dtype]
