"""Attention of every step as operations of torch."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from regard.ops.additive import additive_energies, additive_gradients
from regard.ops.attend.look import AbstractLook, AbstractLookBackward
from regard.ops.softmax import masked_softmax


class _Look(AbstractLook):
    def _look(self, t: int, contexts: Tensor, column: int) -> None:
        self.weights[t] = self._attend(self.queries[t], slice(None), contexts[t], column)

    def _attend(self, query: Tensor, sentences: Tensor | slice, contexts: Tensor, column: int) -> Tensor:
        energies, values = self._energies(query, self.keys[sentences]), self.values[sentences]
        support = None if self.mask is None else self.mask[sentences, None]
        weights = masked_softmax(energies * self.sharpening if self.sharpening != 1.0 else energies, support)
        shared = weights.unflatten(1, (values.shape[2], -1))
        context = torch.einsum("bgns,bsgv->bgnv", shared, values).flatten(1)
        contexts[:, column : column + context.shape[1]] = context
        return weights

    @abstractmethod
    def _energies(self, query: Tensor, keys: Tensor) -> Tensor: ...


class _LookBackward(AbstractLookBackward):
    def backward(self, t: int, grad_contexts: Tensor, grad_weights: Tensor | None) -> None:
        look = self.look
        weights, groups = look.weights[t], look.values.shape[2]
        grad_context = grad_contexts[t].unflatten(1, (groups, weights.shape[1] // groups, -1))
        grad_alpha = torch.einsum("bgnv,bsgv->bgns", grad_context, look.values).flatten(1, 2)
        grad_alpha = grad_alpha if grad_weights is None else grad_alpha + grad_weights
        grad_energies = weights * (grad_alpha - (weights * grad_alpha).sum(-1, keepdim=True))
        self._through_energies(t, grad_energies * look.sharpening if look.sharpening != 1.0 else grad_energies)

    @abstractmethod
    def _through_energies(self, t: int, grad_energies: Tensor) -> None: ...


class AdditiveLook(_Look):
    """e_j = v · tanh(q + k_j)."""

    def _energies(self, query: Tensor, keys: Tensor) -> Tensor:
        assert self.v is not None
        return additive_energies(query[:, None], keys, self.v)[:, :, 0]

    def reverse(self) -> AbstractLookBackward:
        return AdditiveLookBackward(self)


class AdditiveLookBackward(_LookBackward):
    """Of `AdditiveLook`."""

    def _through_energies(self, t: int, grad_energies: Tensor) -> None:
        look = self.look
        assert look.v is not None
        assert self.grad_v is not None
        grad_query, grad_keys, grad_v = additive_gradients(
            grad_energies[:, :, None], look.queries[t][:, None], look.keys, look.v
        )
        self.grad_queries[t] = grad_query[:, 0]
        self.grad_keys.add_(grad_keys)
        self.grad_v[0].add_(grad_v)


class RectifiedLook(_Look):
    """e_j = v · max(q + k_j, 0)."""

    def _energies(self, query: Tensor, keys: Tensor) -> Tensor:
        assert self.v is not None
        return additive_energies(query[:, None], keys, self.v, "relu")[:, :, 0]

    def reverse(self) -> AbstractLookBackward:
        return RectifiedLookBackward(self)


class RectifiedLookBackward(_LookBackward):
    """Of `RectifiedLook`."""

    def _through_energies(self, t: int, grad_energies: Tensor) -> None:
        look = self.look
        assert look.v is not None
        assert self.grad_v is not None
        hidden = (look.queries[t][:, None] + look.keys).relu_()  # (B, S, H, D)
        shared = grad_energies.transpose(1, 2)[..., None]
        self.grad_v.add_((hidden * shared).sum(1))
        grad_hidden = shared * look.v * (hidden > 0)
        self.grad_queries[t] = grad_hidden.sum(1)
        self.grad_keys.add_(grad_hidden)


class DotLook(_Look):
    """e_j = q · k_j."""

    def _energies(self, query: Tensor, keys: Tensor) -> Tensor:
        shared = query.unflatten(1, (keys.shape[2], -1))
        return torch.einsum("bgnd,bsgd->bgns", shared, keys).flatten(1, 2)

    def reverse(self) -> AbstractLookBackward:
        return DotLookBackward(self)


class DotLookBackward(_LookBackward):
    """Of `DotLook`."""

    def _through_energies(self, t: int, grad_energies: Tensor) -> None:
        keys = self.look.keys
        grad_energies, query = (x.unflatten(1, (keys.shape[2], -1)) for x in (grad_energies, self.look.queries[t]))
        self.grad_queries[t] = torch.einsum("bgns,bsgd->bgnd", grad_energies, keys).flatten(1, 2)
        self.grad_keys.add_(torch.einsum("bgns,bgnd->bsgd", grad_energies, query))


LOOKS: dict[str, type[AbstractLook]] = {"additive": AdditiveLook, "rectified": RectifiedLook, "dot": DotLook}
