"""Dynamic convolution attention of every step as compiled loops.

    u_s = b + Σ_w α_{t-1,s+w-⌊W/2⌋} M_w,  e_s = v · tanh(u_s) + log max(Σ_k P_k α_{t-1,s-k}, floor),  α_t = softmax(β e)

M (B, H, W, D) = Fᵀ U + G_tᵀ T joins the fixed filters F with those that a network makes of the query, G_t: as every
filter meets the same alignment, u is one sum of rows of M. Backward, with g = grad_e and p_s = Σ_k P_k α_{s-k}:

    grad_u_s = g_s v (1 - tanh²),  grad_M_w = Σ_s α_{s+w-⌊W/2⌋} grad_u_s
    grad_v = Σ_s g_s tanh(u_s),  grad_b = Σ_s grad_u_s
    grad_α_{t-1,j} = Σ_w grad_u_{j-w+⌊W/2⌋} · M_w + Σ_k P_k g_{j+k} / p_{j+k} where p is above the floor

u is made again backward, as it would be too large to keep. The first step's alignments get no gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.attend.convolved.numba import energies, gradients
from regard.ops.attend.look import AbstractLookBackward
from regard.ops.attend.numba import Look, LookBackward, softmax_and_sum
from regard.ops.compiled.elementary import LARGE


class ConvolvedLook(Look):
    """A look without queries or keys: `matrices[t]` (B, H, W, D) is set before step t.

    Args:
        values, mask, v: as of any look.
        bias: b (H, D).
        moves: P (K,).
        floor: of the prior.
        first, first_prior: the alignments (B, H, S) before the first step, for the filters and for the prior.
    """

    def __init__(
        self,
        values: Tensor,
        mask: Tensor | None,
        v: Tensor,
        *,
        bias: Tensor,
        moves: Tensor,
        floor: float,
        first: Tensor,
        first_prior: Tensor,
        **options: Any,
    ) -> None:
        keys = values.new_empty(*values.shape[:2], 1, v.shape[1])  # of which only the shape is read
        super().__init__(keys, values, mask, v, **options)
        assert self.v is not None
        self.matrices: list[Tensor] = []
        self.first, self.first_prior = first.contiguous(), first_prior.contiguous()
        kind = self.alphas.dtype.type
        self.constants = (
            bias.detach().contiguous().numpy(),
            self.v.numpy(),
            moves.numpy(),
            kind(floor),
            LARGE[self.alphas.dtype],
        )

    def before(self, t: int) -> tuple[Any, Any]:
        """The alignments (B, H, S) that step t reads."""
        if t:
            return self.alphas[t - 1], self.alphas[t - 1]
        return self.first.numpy(), self.first_prior.numpy()

    def advance(self, t: int, matrix: Tensor, contexts: Tensor) -> None:
        """A step: writes the weights, and the contexts (B, H·V) into `contexts[t]`."""
        self.matrices.append(matrix)
        rows = len(self.itself)
        self.run(energies, rows, *self.before(t), matrix.numpy(), *self.constants, self.alphas[t])
        self.run(softmax_and_sum, rows, t, self.itself, *self.read, self.alphas, contexts.numpy(), 0)

    def reverse(self) -> AbstractLookBackward:
        return ConvolvedLookBackward(self)


class ConvolvedLookBackward(LookBackward):
    """Of `ConvolvedLook`; `grad_v` and `grad_bias` (B, H, D) are sums over steps."""

    def __init__(self, look: ConvolvedLook) -> None:
        super().__init__(look)
        assert self.grad_v is not None
        self.convolved, self.of_v = look, self.grad_v
        self.grad_bias = torch.zeros_like(self.grad_v)
        self.grad_past = torch.zeros_like(look.weights[0])

    def backward(self, t: int, grad_contexts: Tensor, grad_weights: Tensor | None) -> None:
        raise NotImplementedError

    def retreat(self, t: int, grad_contexts: Tensor, grad_weights: Tensor | None) -> Tensor:
        """The gradient of M (B, H, W, D) of step t."""
        look = self.convolved
        self._through_softmax(
            t, grad_contexts, self.grad_past if grad_weights is None else self.grad_past + grad_weights
        )
        grad_matrix = torch.zeros_like(look.matrices[t])
        self.grad_past.zero_()
        results = grad_matrix.numpy(), self.of_v.numpy(), self.grad_bias.numpy(), self.grad_past.numpy()
        self._run(gradients, *look.before(t), look.matrices[t].numpy(), *look.constants, self._grad_energies, *results)
        return grad_matrix
