"""What attention does in every step of a pass, forward and backward, without autograd.

    forward:   e_j = q · k_j  or  v · tanh(q + k_j),  α = softmax(β e) over the mask,  c = Σ_j α_j v_j
    backward:  grad_α_j = v_j · grad_c (+ what α itself gets),  grad_e_j = β α_j (grad_α_j - Σ_i α_i grad_α_i),
               then grad_q, grad_k (summed over steps) and grad_v of the energies

The gradient of the values, Σ_t α_t grad_c_tᵀ, is one product over all steps at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class AbstractLook(ABC):
    """Looks into one memory, a step at a time.

    Time comes first. The query of step t is kept in `queries[t]`, (B, H, D), and α in `weights[t]`, (B, H, S). A
    search, which keeps no steps, looks with `once`.

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
    def reverse(self) -> AbstractLookBackward:
        """The backward steps, once all steps have been taken."""


class AbstractLookBackward(ABC):
    """A look backward, from its last step to its first.

    `grad_queries` (T, B, H, D) are filled step by step; `grad_keys` (B, S, G, D) and `grad_v` (B, H, D) are sums over
    steps.

    Args:
        look: after its last step.
    """

    def __init__(self, look: AbstractLook) -> None:
        self.look = look
        self.grad_keys = torch.zeros_like(look.keys)
        self.grad_queries = look.keys.new_empty(*look.weights.shape[:3], look.size)
        self.grad_v = None if look.v is None else look.v.new_zeros(len(look.keys), *look.v.shape)

    @abstractmethod
    def backward(self, t: int, grad_contexts: Tensor, grad_weights: Tensor | None) -> None:
        """Fills `grad_queries[t]` and adds to the sums.

        Args:
            grad_contexts: (T, B, H·V), of which row t is read.
            grad_weights: (B, H, S), of the weights themselves, or None.
        """

    def gradients(self, grad_contexts: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The gradients of keys, values and v, after the backward step of step 0."""
        weights, values = self.look.weights, self.look.values
        grad_contexts = grad_contexts.unflatten(2, (weights.shape[2], -1))
        heads = (x.unflatten(2, (values.shape[2], -1)) for x in (weights, grad_contexts))
        grad_values = torch.einsum("tbgns,tbgnv->bsgv", *heads)
        return self.grad_keys, grad_values, None if self.grad_v is None else self.grad_v.sum(0)
