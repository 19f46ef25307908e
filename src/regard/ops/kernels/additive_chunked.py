"""The formula of additive energies in chunks of steps, for any device, without tensors of size T·S·D.

    x = q_td + k_sd,  h = φ(x) with φ = tanh or a rectifier,  e_ts = Σ_d v_d h_tsd
    grad_v_d = Σ_ts g_ts h_tsd,  grad_q_td = Σ_s g_ts v_d φ'(x),  grad_k_sd = Σ_t g_ts v_d φ'(x)

A chunk of t steps has tensors (B, t, S, *heads, D), of about `CHUNK_ELEMENTS` numbers each.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.ops.additive import activate

CHUNK_ELEMENTS = 1 << 22
"""Numbers of a tensor of a chunk, about."""


def energies(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    """(B, *heads, T, S), as the reference."""
    out = query.new_empty(query.shape[0], *v.shape[:-1], query.shape[1], keys.shape[1])
    for steps in _chunks(query, keys):
        hidden = activate(query[:, steps, None] + keys[:, None], slope).mul_(v)  # (B, t, S, *heads, D)
        part = hidden.sum(-1)
        out[..., steps, :] = part if query.dim() == 3 else part.movedim(3, 1)
    return out


def gradients(
    gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor, slope: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, keys and v, of the shapes of each, from that of the energies (B, *heads, T, S)."""
    grad_query, grad_keys, grad_v = (
        torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (query, keys, v)
    )
    for steps in _chunks(query, keys):
        x = query[:, steps, None] + keys[:, None]
        hidden = activate(x, slope)
        # g (B, t, S, *heads), heads last
        g = gradient[..., steps, :] if query.dim() == 3 else gradient[..., steps, :].movedim(1, 3)
        grad_v += torch.einsum("btshd,btsh->hd" if query.dim() == 4 else "btsd,bts->d", hidden, g)
        if slope is None:
            # φ' = 1 - tanh², written over tanh
            derivative = hidden.square_().neg_().add_(1)
        else:
            derivative = torch.ones_like(x).masked_fill_(x <= 0, slope)
        # g v φ', summed over positions for q, added up over steps for k
        derivative.mul_(v).mul_(g[..., None])
        grad_query[:, steps] = derivative.sum(2)
        grad_keys += derivative.sum(1)
    return grad_query, grad_keys, grad_v


def _chunks(query: Tensor, keys: Tensor) -> Iterator[slice]:
    step = max(1, CHUNK_ELEMENTS // max(keys.numel(), 1))
    return (slice(start, start + step) for start in range(0, query.shape[1], step))
