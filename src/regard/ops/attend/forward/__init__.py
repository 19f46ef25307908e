"""Forward attention of every step, with location-sensitive energies, as compiled loops.

    m_n = (1 - u_t) a_{t,n} + u_t a_{t,n-1},  α_t = softmax(e_t + log m),  a_{t+1} = α_t
    grad_m = grad_z / m, z = e + log m
    grad_a_n = (1 - u) grad_m_n + u grad_m_{n+1},  grad_u = Σ_n grad_m_n (a_{n-1} - a_n)

So forward attention is a softmax whose energies have log m beside them: what makes energies, sums values and goes
through the softmax is that of `location`. Where no position can be reached m has no say (`ops.forward`), which 0 in
its place stands for; and where a row has no weights a stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.attend.forward.numba import keep, move_on, move_on_backward
from regard.ops.attend.location import LocationLook, LocationLookBackward
from regard.ops.attend.look import AbstractLookBackward


class ForwardLook(LocationLook):
    """α = softmax(e + log m).

    Args:
        start: a_0 (B, H, S), which gets no gradient.

    `moves` (T + 1, B, H) has u; who predicts it writes it before its step. It is 1/2 at first.
    """

    def __init__(self, *memory: Any, start: Tensor, **options: Any) -> None:
        super().__init__(*memory, **options)
        steps, *shape = self.weights.shape
        self.kept = self.weights.new_empty(steps + 1, *shape)
        self.kept[0] = start
        self.moves = self.weights.new_full((steps + 1, *shape[:2]), 0.5)
        self.reach = torch.empty_like(self.weights)  # m
        self.moving = self.kept.numpy(), self.moves.numpy(), self.reach.numpy()
        self.tiny = np.finfo(self.alphas.dtype).tiny

    def _before_softmax(self, t: int) -> None:
        self.run(move_on, len(self.kept[0]), t, self.read[0], self.tiny, *self.moving, self.alphas)

    def _after_softmax(self, t: int) -> None:
        super()._after_softmax(t)
        self.run(keep, len(self.kept[0]), t, self.alphas, self.kept.numpy())

    def reverse(self) -> AbstractLookBackward:
        return ForwardLookBackward(self)


class ForwardLookBackward(LocationLookBackward):
    """Of `ForwardLook`; `grad_moves` (T, B, H) has u's gradients."""

    def __init__(self, look: ForwardLook) -> None:
        super().__init__(look)
        self.forward_look = look
        self.grad_kept = torch.zeros_like(look.kept[0])
        self.grad_moves = look.moves.new_zeros(look.moves.shape)

    def _through_softmax(self, t: int, grad_contexts: Tensor, grad_weights: Tensor | None) -> None:
        look = self.forward_look
        super()._through_softmax(t, grad_contexts, grad_weights)
        buffers = self._grad_energies, look.alphas, *look.moving, self.grad_kept.numpy(), self.grad_moves.numpy()
        self._run(move_on_backward, t, *buffers)

    def _add_later(self, t: int, grad_weights: Tensor | None) -> Tensor | None:
        total = super()._add_later(t, grad_weights)
        return self.grad_kept.clone() if total is None else total + self.grad_kept
