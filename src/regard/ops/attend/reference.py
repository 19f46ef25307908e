"""Attention of every step as operations of torch."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.ops.additive import additive_energies, additive_gradients
from regard.ops.attend.look import AbstractLook
from regard.ops.softmax import masked_softmax


class _Look(AbstractLook):
    def _look(self, t: int, contexts: Tensor, column: int) -> None:
        energies = self._energies(self.queries[t])
        support = None if self.mask is None else self.mask[:, None]
        weights = masked_softmax(energies * self.sharpening if self.sharpening != 1.0 else energies, support)
        self.weights[t] = weights
        context = torch.einsum("bgns,bsgv->bgnv", self._grouped(weights), self.values).flatten(1)
        contexts[t, :, column : column + context.shape[1]] = context

    def backward(self, t: int, by_contexts: Tensor, by_weights: Tensor | None) -> None:
        weights = self.weights[t]
        by_context = self._grouped(by_contexts[t].unflatten(1, (weights.shape[1], -1)))
        found = torch.einsum("bgnv,bsgv->bgns", by_context, self.values).flatten(1, 2)
        found = found if by_weights is None else found + by_weights
        by_energies = weights * (found - (weights * found).sum(-1, keepdim=True))
        self._look_back(t, by_energies * self.sharpening if self.sharpening != 1.0 else by_energies)

    def _grouped(self, x: Tensor) -> Tensor:
        """(B, H, …) as (B, G', H / G', …)."""
        return x.unflatten(1, (self.values.shape[2], -1))

    def _energies(self, query: Tensor) -> Tensor:
        raise NotImplementedError

    def _look_back(self, t: int, by_energies: Tensor) -> None:
        raise NotImplementedError


class AdditiveLook(_Look):
    """e_j = v · tanh(q + k_j)."""

    def _energies(self, query: Tensor) -> Tensor:
        assert self.v is not None
        return additive_energies(query[:, None], self.keys, self.v)[:, :, 0]

    def _look_back(self, t: int, by_energies: Tensor) -> None:
        assert self.v is not None
        assert self.by_v is not None
        by_query, by_keys, by_v = additive_gradients(
            by_energies[:, :, None], self.queries[t][:, None], self.keys, self.v
        )
        self.by_queries[t] = by_query[:, 0]
        self.by_keys += by_keys
        self.by_v[0] += by_v


class DotLook(_Look):
    """e_j = q · k_j."""

    def _energies(self, query: Tensor) -> Tensor:
        shared = query.unflatten(1, (self.keys.shape[2], -1))
        return torch.einsum("bgnd,bsgd->bgns", shared, self.keys).flatten(1, 2)

    def _look_back(self, t: int, by_energies: Tensor) -> None:
        groups = self.keys.shape[2]
        by_energies, query = (x.unflatten(1, (groups, -1)) for x in (by_energies, self.queries[t]))
        self.by_queries[t] = torch.einsum("bgns,bsgd->bgnd", by_energies, self.keys).flatten(1, 2)
        self.by_keys += torch.einsum("bgns,bgnd->bsgd", by_energies, query)


LOOKS: dict[str, type[AbstractLook]] = {"additive": AdditiveLook, "dot": DotLook}
