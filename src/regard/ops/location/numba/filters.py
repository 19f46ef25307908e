"""The convolution and the projection of location features, and their gradients, as products of matrices.

With taps_s, the C · W numbers of the past around a position, as rows (H, rows · S, C·W), on a plane W = Y · X:

    features = taps Fᵀ (H, rows · S, F),  u = features U (H, rows · S, D)
    grad_U = featuresᵀ grad_u,  grad_features = grad_u Uᵀ,  grad_F = grad_featuresᵀ taps,  grad_taps = grad_features F

Or `at_once`, where that is less work, u = taps M with the matrix M = Fᵀ U (H, C·W, D):

    grad_M = tapsᵀ grad_u,  grad_taps = grad_u Mᵀ,  and at the end  grad_F = U grad_Mᵀ,  grad_U = F grad_M
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.threads import parallel_for

ALIGNED = 16
"""Taps are filled up with zeros to a multiple: products of matrices of odd width take twice as long."""


class Filters:
    """From the past to u, and gradients summed over blocks; without autograd.

    Args:
        filters: (H, F, C, W), or (H, F, C, Y, X) of a plane.
        projection: U, (H, F, D).
    """

    def __init__(self, filters: Tensor, projection: Tensor) -> None:
        self.shape = filters.shape
        self.widths = (*(1,) * (5 - filters.dim()), *filters.shape[3:])  # a line is a plane of one row
        self.num_taps = self.shape[2] * self.widths[0] * self.widths[1]
        room = -self.num_taps % ALIGNED
        self.kernel = torch.nn.functional.pad(filters.detach().flatten(2), (0, room))
        self.projection = projection.detach()
        count, width, size = *self.kernel.shape[1:], projection.shape[2]
        # multiply-adds a position: C·W·D at once, or C·W·F and then F·D
        self.at_once = width * size <= count * (width + size)
        self.matrix = torch.bmm(self.kernel.mT, self.projection) if self.at_once else self.projection
        self.grad_matrix, self.grad_kernel = torch.zeros_like(self.matrix), torch.zeros_like(self.kernel)

    def locate(self, past: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """Fills u (H, rows, S, D) from the past (rows, H, C, S) or (rows, H, C, h, w).

        Returns:
            taps, and what was multiplied last: features, or taps where u is made at once; (H, rows · S, ·).
        """
        heads, rows, positions, size = out.shape
        taps = out.new_empty(heads, rows * positions, self.kernel.shape[2])
        arguments = self._plane(past.detach().contiguous()), taps.view(heads, rows, positions, -1).numpy(), *self.widths
        parallel_for(_gather, arguments, rows, taps.numel())
        features = taps if self.at_once else torch.bmm(taps, self.kernel.mT)
        # a product for each head, written straight into its part of u
        for part, matrix, result in zip(features, self.matrix, out.view(heads, rows * positions, size)):
            torch.mm(part, matrix, out=result)
        return taps, features

    def learn(self, grad_u: Tensor, taps: Tensor, features: Tensor, grad_past: Tensor | None) -> None:
        """Adds to the gradients of F and U, and fills that of the past."""
        flat = grad_u.flatten(1, 2)
        self.grad_matrix.baddbmm_(features.mT, flat)
        # at once, grad_F and grad_U follow from grad_M, in `gradients`
        if self.at_once and grad_past is None:
            return
        grad_taps = torch.bmm(flat, self.matrix.mT)  # grad_features where u is not made at once
        if not self.at_once:
            self.grad_kernel.baddbmm_(grad_taps.mT, taps)
            grad_taps = torch.bmm(grad_taps, self.kernel)
        if grad_past is not None:
            arguments = grad_taps.view(*grad_u.shape[:3], -1).numpy(), self._plane(grad_past), *self.widths
            parallel_for(_scatter, arguments, len(grad_past), grad_taps.numel())

    def _plane(self, past: Tensor) -> Any:
        """The past as an array (rows, H, C, h, w)."""
        return (past if past.dim() == 5 else past[:, :, :, None]).numpy()

    def gradients(self) -> tuple[Tensor, Tensor]:
        """The gradients of F and U, without the zeros that taps are filled up with."""
        grad_kernel, grad_projection = self.grad_kernel, self.grad_matrix
        if self.at_once:
            grad_kernel = torch.bmm(self.projection, self.grad_matrix.mT)
            grad_projection = torch.bmm(self.kernel, self.grad_matrix)
        return grad_kernel[..., : self.num_taps].reshape(self.shape), grad_projection


@compiled
def _gather(past: Any, taps: Any, height: int, width: int, start: int, stop: int) -> None:
    """taps_{h r s, (c Y + i) X + j} = past_{r h c, y + i - ⌊Y/2⌋, x + j - ⌊X/2⌋} at s = y w + x, zero beyond all ends.

    taps (H, rows, S, ≥ C · Y · X), past (rows, H, C, h, w); height and width are Y and X.
    """
    heads, _, _, room = taps.shape
    channels, rows, columns = past.shape[2:]
    # a channel between zeros, so that the loop over taps needs no test for the ends; the zeros are never written
    padded = np.zeros((rows + height - 1, columns + width - 1), past.dtype)
    above, left = height // 2, width // 2
    for r in range(start, stop):
        for h in range(heads):
            for c in range(channels):
                padded[above : above + rows, left : left + columns] = past[r, h, c]
                for y in range(rows):
                    for x in range(columns):
                        window = taps[h, r, y * columns + x]
                        for i in range(height):
                            line, first = padded[y + i], (c * height + i) * width
                            for j in range(width):
                                window[first + j] = line[x + j]
            # the columns up to a multiple of `ALIGNED`: the matrix has zeros there, but 0 · NaN would not be 0
            for s in range(rows * columns):
                for j in range(channels * height * width, room):
                    taps[h, r, s, j] = 0


@compiled
def _scatter(grad_taps: Any, grad_past: Any, height: int, width: int, start: int, stop: int) -> None:
    """The transpose of `_gather`: the gradient of a cell is the sum of those of the taps that it was copied to."""
    heads = grad_taps.shape[0]
    channels, rows, columns = grad_past.shape[2:]
    padded = np.empty((rows + height - 1, columns + width - 1), grad_past.dtype)
    above, left = height // 2, width // 2
    for r in range(start, stop):
        for h in range(heads):
            for c in range(channels):
                # sums beyond the ends belong to the zeros around the channel and are dropped
                padded[:] = 0
                for y in range(rows):
                    for x in range(columns):
                        window = grad_taps[h, r, y * columns + x]
                        for i in range(height):
                            line, first = padded[y + i], (c * height + i) * width
                            for j in range(width):
                                line[x + j] += window[first + j]
                grad_past[r, h, c] = padded[above : above + rows, left : left + columns]
