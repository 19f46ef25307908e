"""Attention of every step as operations of torch."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from regard.ops.additive import additive_energies, additive_gradients
from regard.ops.attend.look import AbstractLook, AbstractLookBack
from regard.ops.softmax import masked_softmax


class _Look(AbstractLook):
    def _look(self, t: int, contexts: Tensor, column: int) -> None:
        self.weights[t] = self._attend(self.queries[t], slice(None), contexts[t], column)

    def once(self, query: Tensor, owners: Tensor, contexts: Tensor, column: int = 0) -> Tensor:
        return self._attend(query.unflatten(1, (-1, self.size)), owners, contexts, column)

    def _attend(self, query: Tensor, owners: Tensor | slice, contexts: Tensor, column: int) -> Tensor:
        energies, values = self._energies(query, self.keys[owners]), self.values[owners]
        support = None if self.mask is None else self.mask[owners, None]
        weights = masked_softmax(energies * self.sharpening if self.sharpening != 1.0 else energies, support)
        shared = weights.unflatten(1, (values.shape[2], -1))
        context = torch.einsum("bgns,bsgv->bgnv", shared, values).flatten(1)
        contexts[:, column : column + context.shape[1]] = context
        return weights

    @abstractmethod
    def _energies(self, query: Tensor, keys: Tensor) -> Tensor: ...


class _LookBack(AbstractLookBack):
    def backward(self, t: int, by_contexts: Tensor, by_weights: Tensor | None) -> None:
        look = self.look
        weights, groups = look.weights[t], look.values.shape[2]
        by_context = by_contexts[t].unflatten(1, (groups, weights.shape[1] // groups, -1))
        found = torch.einsum("bgnv,bsgv->bgns", by_context, look.values).flatten(1, 2)
        found = found if by_weights is None else found + by_weights
        by_energies = weights * (found - (weights * found).sum(-1, keepdim=True))
        self._by_energies(t, by_energies * look.sharpening if look.sharpening != 1.0 else by_energies)

    @abstractmethod
    def _by_energies(self, t: int, by_energies: Tensor) -> None: ...


class AdditiveLook(_Look):
    """e_j = v · tanh(q + k_j)."""

    def _energies(self, query: Tensor, keys: Tensor) -> Tensor:
        assert self.v is not None
        return additive_energies(query[:, None], keys, self.v)[:, :, 0]

    def back(self) -> AbstractLookBack:
        return AdditiveLookBack(self)


class AdditiveLookBack(_LookBack):
    """Of `AdditiveLook`."""

    def _by_energies(self, t: int, by_energies: Tensor) -> None:
        look = self.look
        assert look.v is not None
        assert self.by_v is not None
        by_query, by_keys, by_v = additive_gradients(
            by_energies[:, :, None], look.queries[t][:, None], look.keys, look.v
        )
        self.by_queries[t] = by_query[:, 0]
        self.by_keys.add_(by_keys)
        self.by_v[0].add_(by_v)


class DotLook(_Look):
    """e_j = q · k_j."""

    def _energies(self, query: Tensor, keys: Tensor) -> Tensor:
        shared = query.unflatten(1, (keys.shape[2], -1))
        return torch.einsum("bgnd,bsgd->bgns", shared, keys).flatten(1, 2)

    def back(self) -> AbstractLookBack:
        return DotLookBack(self)


class DotLookBack(_LookBack):
    """Of `DotLook`."""

    def _by_energies(self, t: int, by_energies: Tensor) -> None:
        keys = self.look.keys
        by_energies, query = (x.unflatten(1, (keys.shape[2], -1)) for x in (by_energies, self.look.queries[t]))
        self.by_queries[t] = torch.einsum("bgns,bsgd->bgnd", by_energies, keys).flatten(1, 2)
        self.by_keys.add_(torch.einsum("bgns,bgnd->bsgd", by_energies, query))


LOOKS: dict[str, type[AbstractLook]] = {"additive": AdditiveLook, "dot": DotLook}
