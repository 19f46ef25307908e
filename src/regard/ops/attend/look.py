"""What attention does in every step of a pass: energies, softmax over the support, the weighted sum."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class AbstractLook(ABC):
    """Looks into one memory, a step at a time, and looks back for the derivatives; without autograd.

    Time comes first. What was asked in step t stands in `queries[t]`, (B, H, D), and α in `weights[t]`. A search, which
    keeps no steps, looks with `once`.

    Args:
        keys: (B, S, G, D); heads side by side share a key, as in `regard.attention.heads`.
        values: (B, S, G', V).
        mask: (B, S) or None.
        v: (H, D) of additive energies, or None.
        steps: T.
        num_heads: H.
        sharpening: factor on the energies.
    """

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        v: Tensor | None,
        *,
        steps: int,
        num_heads: int,
        sharpening: float = 1.0,
    ) -> None:
        self.keys, self.values = keys.detach().contiguous(), values.detach().contiguous()
        self.mask = None if mask is None else mask.contiguous()
        self.v = None if v is None else v.detach().contiguous()
        self.sharpening = sharpening
        batch, positions, _, size = keys.shape
        self.size = size
        self.queries: list[Tensor] = []
        self.weights = keys.new_empty(steps, batch, num_heads, positions)

    def forward(self, t: int, query: Tensor, contexts: Tensor, column: int) -> None:
        """Asks with a projected query (B, H·D) in step t.

        Writes the context (B, H·V) into `contexts` (T, B, ≥ column + H·V), from a column on.
        """
        self.queries.append(query.contiguous().unflatten(1, (-1, self.size)))
        self._look(t, contexts, column)

    @abstractmethod
    def _look(self, t: int, contexts: Tensor, column: int) -> None: ...

    @abstractmethod
    def once(self, query: Tensor, owners: Tensor, contexts: Tensor, column: int = 0) -> Tensor:
        """The weights (R, H, S) of projected queries (R, H·D), each into the memory of the sentence that owns it.

        Writes the contexts (R, H·V) into `contexts` (R, ≥ column + H·V), from a column on.
        """

    @abstractmethod
    def back(self) -> AbstractLookBack:
        """What looks back, once all steps have been looked at."""


class AbstractLookBack(ABC):
    """The derivatives of a look: `by_queries` (T, B, H, D), and sums over steps for keys and v.

    Args:
        look: what was looked at.
    """

    def __init__(self, look: AbstractLook) -> None:
        self.look = look
        self.by_keys = torch.zeros_like(look.keys)
        self.by_queries = look.keys.new_empty(*look.weights.shape[:3], look.size)
        self.by_v = None if look.v is None else look.v.new_zeros(len(look.keys), *look.v.shape)

    @abstractmethod
    def backward(self, t: int, by_contexts: Tensor, by_weights: Tensor | None) -> None:
        """Writes `by_queries[t]`, adds to the sums; from `by_contexts[t]`, (B, H·V), and `by_weights` (B, H, S)."""

    def gradients(self, by_contexts: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """By keys, values and v, once all steps have been looked back at."""
        weights, values = self.look.weights, self.look.values
        by_contexts = by_contexts.unflatten(2, (weights.shape[2], -1))
        heads = (x.unflatten(2, (values.shape[2], -1)) for x in (weights, by_contexts))
        by_values = torch.einsum("tbgns,tbgnv->bsgv", *heads)
        return self.by_keys, by_values, None if self.by_v is None else self.by_v.sum(0)
