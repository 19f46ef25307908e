"""Splitting projections into heads, and reading a memory that hypotheses share."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.shapes import Float, num_hypotheses


def head_size(size: int, num_heads: int, name: str = "size") -> int:
    """size / num_heads, or an error that says which sizes fit."""
    if num_heads < 1 or size % num_heads:
        raise ShapeError(f"{name}={size} must be a multiple of num_heads={num_heads}.")
    return size // num_heads


def split(projected: Float[Tensor, "*rows HD"], num_heads: int) -> Float[Tensor, "*rows H D"]:
    """(…, H·D) as (…, H, D), a view."""
    return projected.unflatten(-1, (num_heads, -1))


def share(query: Float[Tensor, "R H D"], keys: Float[Tensor, "B S H D"]) -> Float[Tensor, "B K H D"]:
    """Rows of queries beside the sentence whose memory they read: (R, H, D) as (B, K, H, D), a view."""
    return query.view(keys.shape[0], num_hypotheses(query.shape[0], keys.shape[0]), *query.shape[1:])


def dot_energies(query: Float[Tensor, "R H D"], keys: Float[Tensor, "B S H D"]) -> Float[Tensor, "R H S"]:
    """q · k for every head, memory un-tiled."""
    energies = torch.einsum("bkhd,bshd->bkhs", share(query, keys), keys)
    return energies.reshape(query.shape[0], keys.shape[2], keys.shape[1])
