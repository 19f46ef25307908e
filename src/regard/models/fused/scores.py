"""Energies of one step and their derivatives, without autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from regard import ops
from regard.attention.heads import dot_energies
from regard.ops.additive.operation import additive_gradients

Gradients = tuple[Tensor, Tensor, Tensor | None]


class AdditiveEnergies:
    """e_j = v · tanh(q + k_j)."""

    @staticmethod
    def forward(query: Tensor, keys: Tensor, v: Tensor | None) -> Tensor:
        """(B, H, S) from (B, H, D)."""
        assert v is not None
        return ops.additive_energies(query[:, None], keys, v)[:, :, 0]

    @staticmethod
    def backward(gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor | None) -> Gradients:
        """By query, keys and v."""
        assert v is not None
        by_query, by_keys, by_v = additive_gradients(gradient[:, :, None], query[:, None], keys, v)
        return by_query[:, 0], by_keys, by_v


class DotEnergies:
    """e_j = q · k_j."""

    @staticmethod
    def forward(query: Tensor, keys: Tensor, v: Tensor | None) -> Tensor:
        """(B, H, S) from (B, H, D)."""
        return dot_energies(query, keys)

    @staticmethod
    def backward(gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor | None) -> Gradients:
        """By query and keys."""
        gradients, queries = (x.unflatten(1, (keys.shape[2], -1)) for x in (gradient, query))
        by_query = torch.einsum("bgns,bsgd->bgnd", gradients, keys).flatten(1, 2)
        return by_query, torch.einsum("bgns,bgnd->bsgd", gradients, queries), None


ENERGIES: dict[str, type[AdditiveEnergies] | type[DotEnergies]] = {"additive": AdditiveEnergies, "dot": DotEnergies}
