"""The plain formula a few steps at a time: exact for any input, and no tensor of size T·S·D."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.ops.additive import reference

CHUNK = 1 << 22
"""About how many tangents are held at once."""


def energies(query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(B, *heads, T, S), as the reference."""
    out = [reference.additive_energies(query[:, steps], keys, v) for steps in _chunks(query, keys)]
    return torch.cat(out, -2) if out else reference.additive_energies(query, keys, v)


def gradients(gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By query, by keys and by v, of the shapes of each."""
    by_query, by_keys, by_v = torch.zeros_like(query), torch.zeros_like(keys), torch.zeros_like(v)
    for steps in _chunks(query, keys):
        tangent = torch.tanh(query[:, steps, None] + keys[:, None])
        g = gradient[..., steps, :] if query.dim() == 3 else gradient[..., steps, :].movedim(1, 3)
        by_v += torch.einsum("btshd,btsh->hd" if query.dim() == 4 else "btsd,bts->d", tangent, g)
        slope = (1 - tangent.square_()).mul_(v).mul_(g[..., None])
        by_query[:, steps] = slope.sum(2)
        by_keys += slope.sum(1)
    return by_query, by_keys, by_v


def _chunks(query: Tensor, keys: Tensor) -> Iterator[slice]:
    step = max(1, CHUNK // max(keys.numel(), 1))
    return (slice(start, start + step) for start in range(0, query.shape[1], step))
