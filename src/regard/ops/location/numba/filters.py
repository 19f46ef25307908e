"""What filters see of the past, and the derivative, as products of matrices.

Filters are linear. With `taps`, the C · W numbers of the past around a position,

    u_s = taps_s (Fᵀ U)

where that is less work than features taps_s Fᵀ first and their product with U then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.threads import spread

ALIGNED = 16
"""Taps are filled up with zeros to a multiple: products of matrices of odd width take twice as long."""


class Filters:
    """From the past to u, and sums of gradients; without autograd.

    Args:
        filters: (H, F, C, W).
        projection: U, (H, F, D).
    """

    def __init__(self, filters: Tensor, projection: Tensor) -> None:
        self.shape = filters.shape
        self.num_taps = self.shape[2] * self.shape[3]
        room = -self.num_taps % ALIGNED
        self.kernel = torch.nn.functional.pad(filters.detach().flatten(2), (0, room))
        self.projection = projection.detach()
        count, width, size = *self.kernel.shape[1:], projection.shape[2]
        self.at_once = width * size <= count * (width + size)
        self.matrix = torch.bmm(self.kernel.mT, self.projection) if self.at_once else self.projection
        self.grad_matrix, self.grad_kernel = torch.zeros_like(self.matrix), torch.zeros_like(self.kernel)

    def locate(self, past: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """Fills u (H, rows, S, D) from the past (rows, H, C, S).

        Returns:
            taps and what was multiplied last, (H, rows · S, ·).
        """
        heads, rows, positions, size = out.shape
        taps = out.new_empty(heads, rows * positions, self.kernel.shape[2])
        given = past.detach().contiguous().numpy(), taps.view(heads, rows, positions, -1).numpy(), self.shape[3]
        spread(_gather, given, rows, taps.numel())
        features = taps if self.at_once else torch.bmm(taps, self.kernel.mT)
        for part, matrix, found in zip(features, self.matrix, out.view(heads, rows * positions, size)):
            torch.mm(part, matrix, out=found)
        return taps, features

    def learn(self, grad_u: Tensor, taps: Tensor, features: Tensor, grad_past: Tensor | None) -> None:
        """Adds to the gradients by F and U, and fills the one by the past (rows, H, C, S)."""
        flat = grad_u.flatten(1, 2)
        self.grad_matrix.baddbmm_(features.mT, flat)
        if self.at_once and grad_past is None:
            return
        grad_taps = torch.bmm(flat, self.matrix.mT)
        if not self.at_once:
            self.grad_kernel.baddbmm_(grad_taps.mT, taps)
            grad_taps = torch.bmm(grad_taps, self.kernel)
        if grad_past is not None:
            given = grad_taps.view(*grad_u.shape[:3], -1).numpy(), grad_past.numpy(), self.shape[3]
            spread(_scatter, given, len(grad_past), grad_taps.numel())

    def gradients(self) -> tuple[Tensor, Tensor]:
        """By F and by U."""
        grad_kernel, grad_projection = self.grad_kernel, self.grad_matrix
        if self.at_once:
            grad_kernel = torch.bmm(self.projection, self.grad_matrix.mT)
            grad_projection = torch.bmm(self.kernel, self.grad_matrix)
        return grad_kernel[..., : self.num_taps].reshape(self.shape), grad_projection


@compiled
def _gather(past: Any, taps: Any, width: int, start: int, stop: int) -> None:
    """taps (H, rows, S, ≥ C · W) from the past (rows, H, C, S), zero beyond its ends."""
    (heads, _, positions, room), channels = taps.shape, past.shape[2]
    padded = np.zeros(positions + width - 1, past.dtype)
    for r in range(start, stop):
        for h in range(heads):
            for c in range(channels):
                padded[width // 2 : width // 2 + positions] = past[r, h, c]
                for s in range(positions):
                    found = taps[h, r, s, c * width : (c + 1) * width]
                    for w in range(width):
                        found[w] = padded[s + w]
            for s in range(positions):
                for w in range(channels * width, room):
                    taps[h, r, s, w] = 0


@compiled
def _scatter(grad_taps: Any, grad_past: Any, width: int, start: int, stop: int) -> None:
    """The derivative of `_gather`."""
    (heads, _, positions, _), channels = grad_taps.shape, grad_past.shape[2]
    padded = np.empty(positions + width - 1, grad_past.dtype)
    for r in range(start, stop):
        for h in range(heads):
            for c in range(channels):
                padded[:] = 0
                for s in range(positions):
                    given = grad_taps[h, r, s, c * width : (c + 1) * width]
                    for w in range(width):
                        padded[s + w] += given[w]
                grad_past[r, h, c] = padded[width // 2 : width // 2 + positions]
