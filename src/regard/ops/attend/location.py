"""Location-sensitive attention of every step as compiled loops; `look` has the equations of what follows the energies.

    past_t = [α_{t-P} … α_{t-1}; a_t]  (C channels),  e_t = v · tanh(q_t + k + (F * past_t) U)
    a_0 = the first alignment,  a_1 = α_0 [+ the first alignment],  a_t = a_{t-1} + α_{t-1}

Backward a weight gets, beside what its context and the caller give it, the gradients of all sums that it is in and of
the P steps that have it as a channel:

    grad_α_t += Σ_{i > t} grad_a_i + Σ_{p ≤ P} grad_past_{t+p}[P - p]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.ops.attend.look import AbstractLookBackward
from regard.ops.attend.numba import Look, LookBackward, softmax_and_sum
from regard.ops.location.numba import Steps


@dataclass(frozen=True)
class Location:
    """The filters and what they slide over.

    Args:
        filters: (H, F, C, W), or (H, F, C, Y, X) of a plane.
        projection: U, (H, F, D).
        recent: (B, H, P, S), the alignments before the first step; they get no gradients.
        sum: (B, H, S), what the sums of later steps begin with.
        has_recent, has_sum: which channels there are.
        is_detached: whether gradients stop at earlier alignments.
        grid: (h, w), where positions are the cells of a plane, s = y·w + x, and filters (H, F, C, Y, X); else None.
    """

    filters: Tensor
    projection: Tensor
    recent: Tensor
    sum: Tensor
    has_recent: bool
    has_sum: bool
    is_detached: bool
    grid: tuple[int, int] | None = None

    def laid(self, past: Tensor) -> Tensor:
        """Channels (…, S) as the filters want them, of a plane (…, h, w)."""
        return past if self.grid is None else past.unflatten(-1, self.grid)

    def after(self, past: Tensor, total: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The channels (R, H, C, S) and the sum (R, H, S) after a step with these weights."""
        total = total + weights
        recent = past[:, :, 1 : past.shape[2] - self.has_sum]
        parts = [recent, weights[:, :, None]] if self.has_recent else []
        return torch.cat([*parts, total[:, :, None]], 2) if self.has_sum else torch.cat(parts, 2), total

    def channels(self, recent: Tensor, total: Tensor) -> Tensor:
        """The input of the filters (B, H, C, S) from the P last alignments and their sum (B, H, S)."""
        parts = ([recent] if self.has_recent else []) + ([total[:, :, None]] if self.has_sum else [])
        return torch.cat(parts, 2)


class LocationLook(Look):
    """e_j = v · tanh(q + k_j + u_j), u of earlier steps' weights.

    Args:
        location: the filters and what they slide over first.
    """

    def __init__(self, *memory: Any, location: Location, **options: Any) -> None:
        super().__init__(*memory, **options)
        assert self.v is not None
        self.location = location
        self.located = self._steps()
        self.num_recent = location.recent.shape[2] if location.has_recent else 0
        shape = *self.weights.shape[:3], self.num_recent + location.has_sum, self.weights.shape[3]
        self.past = self.weights.new_empty(shape)  # (T, B, H, C, S)
        if len(self.past):
            self.past[0] = location.channels(location.recent, location.recent[:, :, -1])

    def _steps(self) -> Steps:
        assert self.v is not None
        return Steps(self.keys, self.location.filters, self.location.projection, self.v)

    def _look(self, t: int, contexts: Tensor, column: int) -> None:
        weights = self.weights[t]
        past = self.location.laid(self.past[t][:, None])
        self.located.energies(self.queries[t][:, None], past, weights[:, None])
        self._before_softmax(t)
        self.run(softmax_and_sum, len(weights), t, self.itself, *self.read, self.alphas, contexts.numpy(), column)
        self._after_softmax(t)

    def _before_softmax(self, t: int) -> None:
        """What is added to the energies in `weights[t]`."""

    def _after_softmax(self, t: int) -> None:
        """The input of the next step: channels move up by one, and the last one is the sum."""
        if t + 1 == len(self.weights):
            return
        weights = self.weights[t]
        past, after, count = self.past[t], self.past[t + 1], self.num_recent
        if count:
            after[:, :, : count - 1] = past[:, :, 1:count]
            after[:, :, count - 1] = weights
        if self.location.has_sum:
            torch.add(past[:, :, -1] if t else self.location.sum, weights, out=after[:, :, -1])

    def reverse(self) -> AbstractLookBackward:
        return LocationLookBackward(self)


class LocationLookBackward(LookBackward):
    """Of `LocationLook`."""

    def __init__(self, look: LocationLook) -> None:
        super().__init__(look)
        self.located_look = look
        self.located = look._steps()
        self.grad_energies = torch.from_numpy(self._grad_energies)
        self.has_past = not look.location.is_detached
        self.grad_past = torch.empty_like(look.past) if self.has_past else look.past[:0]
        self.grad_sum = torch.zeros_like(look.weights[0])  # Σ grad_a of the steps so far

    def backward(self, t: int, grad_contexts: Tensor, grad_weights: Tensor | None) -> None:
        look = self.located_look
        self._through_softmax(t, grad_contexts, self._add_later(t, grad_weights))
        has_past = self.has_past and t > 0  # the first step's input is given
        self.located.gradients(
            self.grad_energies[:, None],
            look.queries[t][:, None],
            look.location.laid(look.past[t][:, None]),
            self.grad_queries[t][:, None],
            look.location.laid(self.grad_past[t][:, None]) if has_past else None,
        )
        if has_past and look.location.has_sum:
            self.grad_sum.add_(self.grad_past[t, :, :, -1])

    def _add_later(self, t: int, grad_weights: Tensor | None) -> Tensor | None:
        """The gradient of the weights (B, H, S) with that of later steps' input."""
        look = self.located_look
        last = len(look.weights) - 1
        if not self.has_past or t == last:
            return grad_weights
        total = self.grad_sum.clone() if grad_weights is None else self.grad_sum + grad_weights
        for back in range(1, min(look.num_recent, last - t) + 1):
            total.add_(self.grad_past[t + back, :, :, look.num_recent - back])
        return total

    def gradients(self, grad_contexts: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        _, grad_values, _ = super().gradients(grad_contexts)
        return self.located.grad_keys, grad_values, self.located.grad_v

    def of_filters(self) -> tuple[Tensor, Tensor]:
        """The gradients of the filters and of their projection."""
        return self.located.convolution.gradients()
