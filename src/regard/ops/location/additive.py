"""Additive energies of keys that differ from row to row: for any device, for compilers and for torch.func."""

from __future__ import annotations

from torch import Tensor

from regard.ops.additive import additive_energies
from regard.ops.location.reference import located


def location_energies(
    query: Tensor, keys: Tensor, past: Tensor, filters: Tensor, projection: Tensor, v: Tensor
) -> Tensor:
    """(B, K, H, S), as the reference. Cost: keys of every row, R·S·D numbers."""
    # every row is a sentence of one step, with keys k + u (B·K, S, H, D); energies (B·K, H, 1, S)
    row_keys = (keys[:, None] + located(past, filters, projection)).flatten(0, 1)
    return additive_energies(query.flatten(0, 1)[:, None], row_keys, v)[:, :, 0].unflatten(0, query.shape[:2])
