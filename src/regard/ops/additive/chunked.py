"""The plain formula a few steps at a time: for any device, and no tensor of size T·S·D."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.ops.additive.activation import activate

CHUNK = 1 << 22
"""About how many tangents are held at once."""


def energies(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    """(B, *heads, T, S), as the reference."""
    out = query.new_empty(query.shape[0], *v.shape[:-1], query.shape[1], keys.shape[1])
    for steps in _chunks(query, keys):
        hidden = activate(query[:, steps, None] + keys[:, None], slope).mul_(v)
        part = hidden.sum(-1)
        out[..., steps, :] = part if query.dim() == 3 else part.movedim(3, 1)
    return out


def gradients(
    gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor, slope: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """By query, by keys and by v, of the shapes of each."""
    grad_query, grad_keys, grad_v = (
        torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (query, keys, v)
    )
    for steps in _chunks(query, keys):
        x = query[:, steps, None] + keys[:, None]
        hidden = activate(x, slope)
        g = gradient[..., steps, :] if query.dim() == 3 else gradient[..., steps, :].movedim(1, 3)
        grad_v += torch.einsum("btshd,btsh->hd" if query.dim() == 4 else "btsd,bts->d", hidden, g)
        if slope is None:
            derivative = hidden.square_().neg_().add_(1)
        else:
            derivative = torch.ones_like(x).masked_fill_(x <= 0, slope)
        derivative.mul_(v).mul_(g[..., None])
        grad_query[:, steps] = derivative.sum(2)
        grad_keys += derivative.sum(1)
    return grad_query, grad_keys, grad_v


def _chunks(query: Tensor, keys: Tensor) -> Iterator[slice]:
    step = max(1, CHUNK // max(keys.numel(), 1))
    return (slice(start, start + step) for start in range(0, query.shape[1], step))
