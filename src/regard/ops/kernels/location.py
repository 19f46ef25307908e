"""Location-sensitive energies as compiled loops around products of matrices, a block of sentences at a time.

    u_s = Σ_f (F_f * past)_s U_f,  r_sd = 1 / (1 + e^{2 (q_d + k_sd + u_sd)}),  tanh(x) = 1 - 2 r,  tanh' = 4 r (1 - r)
    e_s = Σ_d v_d (1 - 2 r_sd)
    grad_u_sd = 4 g_s v_d r (1 - r),  grad_q_d = Σ_s grad_u_sd,  grad_k_sd = Σ grad_u_sd over the K rows that share k_s,
    grad_v_d = Σ_s g_s (1 - 2 r),  then grad_U, grad_F and grad_past from grad_u by products

u (H, rows, S, D) of a block is computed in a buffer by torch's products. A loop adds q and k; in the backward pass it
overwrites u with grad_u. With one row and one head per sentence grad_u is grad_k, and the buffer of grad_k is used.

There is no factored form as in `regard.ops.kernels.additive_tangent`, as u differs in each row and step. Powers are
clamped at `large`, where tanh is 1 to the last digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.autograd import without_autocast
from regard.ops.kernels.compiled import compiled
from regard.ops.kernels.compiled.elementary import LARGE, power
from regard.ops.threads import parallel_for

ALIGNED = 16
"""Taps are padded with zeros to a multiple, as products of matrices of odd width take twice as long."""
BLOCK_ELEMENTS = 1 << 19
"""The most numbers of u of a block, except of a single sentence."""


def energies(query: Tensor, keys: Tensor, past: Tensor, filters: Tensor, projection: Tensor, v: Tensor) -> Tensor:
    """(B, K, H, S) from float32 or float64."""
    out = query.new_empty(*query.shape[:3], keys.shape[1])
    if not out.numel() or not v.numel():
        return out.zero_()
    with torch.no_grad(), without_autocast("cpu"):
        LocationSteps(keys, filters, projection, v, query.shape[1]).energies(query, past, out)
    return out


def gradients(
    gradient: Tensor,
    query: Tensor,
    keys: Tensor,
    past: Tensor,
    filters: Tensor,
    projection: Tensor,
    v: Tensor,
    *,
    grad_past: bool = True,
) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs, of the shapes of each; that of the past only if `grad_past`."""
    if not gradient.numel() or not v.numel():
        return tuple(torch.zeros_like(x) for x in (query, keys, past, filters, projection, v))
    with torch.no_grad(), without_autocast("cpu"):
        steps = LocationSteps(keys, filters, projection, v, query.shape[1])
        grad_query = torch.empty(query.shape, dtype=query.dtype)
        past_gradient = torch.empty(past.shape, dtype=past.dtype) if grad_past else None
        steps.gradients(gradient, query, past, grad_query, past_gradient)
    return grad_query, steps.grad_keys, past_gradient, *steps.convolution.gradients(), steps.grad_v


class LocationSteps:
    """The energies of steps that share keys and weights, and the sums of their gradients; without autograd.

    `grad_keys` and `grad_v` (H, D) are those of all calls of `gradients`; `convolution` has the others.

    Args:
        keys: (B, S, H, D).
        filters: (H, F, C, W).
        projection: U, (H, F, D).
        v: (H, D).
        hypotheses: K, the rows of a step that share keys.
    """

    def __init__(self, keys: Tensor, filters: Tensor, projection: Tensor, v: Tensor, hypotheses: int = 1) -> None:
        self.convolution = LocationFilters(filters, projection)
        self.hypotheses = hypotheses
        self.keys_are_own = hypotheses == v.shape[0] == 1  # no two rows share keys, and (B, S, 1, D) is (1, B, S, D)
        v = v.detach().clone()  # numpy would pin a parameter's memory
        self.keys = keys.detach().contiguous()
        self.arrays = self.keys.numpy(), v.numpy(), LARGE[v.numpy().dtype]
        # sentences of each block
        size = min(max(1, BLOCK_ELEMENTS // (hypotheses * self.keys[0].numel())), len(keys))
        self.blocks = [(start, min(start + size, len(keys))) for start in range(0, len(keys), size)]
        self.rows = size * hypotheses
        self.sentences = np.arange(self.rows) // hypotheses  # of a block's rows, counted from its first
        self.buffers: list[Tensor] = []
        self.sums: list[Tensor] = []
        self.grad_v = torch.zeros_like(v)

    @property
    def grad_keys(self) -> Tensor:
        """(B, S, H, D), after the first call of `gradients`."""
        return self.sums[0]

    def energies(self, query: Tensor, past: Tensor, out: Tensor) -> None:
        """Fills out (B, K, H, S) from query (B, K, H, D) and past (B, K, H, C, S)."""
        (k, *constants), q, result = self.arrays, _array(query.flatten(0, 1)), out.flatten(0, 1).numpy()
        for start, stop in self.blocks:
            rows = slice(start * self.hypotheses, stop * self.hypotheses)
            u = self._buffer()[:, : rows.stop - rows.start]
            self.convolution.locate(past[start:stop].flatten(0, 1), u)
            arguments = (self.sentences, q[rows], k[start:stop], *constants, u.numpy(), result[rows])
            parallel_for(energies_kernel, arguments, u.shape[1], u.numel())

    def gradients(
        self, gradient: Tensor, query: Tensor, past: Tensor, grad_query: Tensor, grad_past: Tensor | None
    ) -> None:
        """Fills the gradients of query (B, K, H, D) and of past (B, K, H, C, S) if given; adds the others to sums."""
        # shares (B, K, H, D) are each row's part of the gradient of v
        (k, *constants), q, g = self.arrays, _array(query), _array(gradient)
        shares, is_first = torch.empty(query.shape, dtype=query.dtype), not self.sums
        if is_first:
            self.sums.append(torch.empty_like(self.keys))
        for start, stop in self.blocks:
            rows = (stop - start) * self.hypotheses
            total = self.grad_keys[start:stop]
            is_total = self.keys_are_own and is_first
            u = total.squeeze(2)[None] if is_total else self._buffer()[:, :rows]
            # u again, which would be too large to save; overwritten with grad_u
            taps, features = self.convolution.locate(past[start:stop].flatten(0, 1), u)
            of_sentences = (q, k, g, grad_query.numpy(), shares.numpy())
            arguments = (*(x[start:stop] for x in of_sentences), *constants, u.numpy())
            parallel_for(gradients_kernel, arguments, rows, u.numel())
            block = None if grad_past is None else grad_past[start:stop].flatten(0, 1)
            self.convolution.learn(u, taps, features, block)
            if is_total:
                continue
            # (H, B·K, S, D), summed over the K rows of a sentence, to (B, S, H, D)
            summed = u if self.hypotheses == 1 else u.unflatten(1, (-1, self.hypotheses)).sum(2)
            summed = summed.movedim(0, 2)
            total.copy_(summed) if is_first else total.add_(summed)
        self.grad_v.add_(shares.sum((0, 1)))

    def _buffer(self) -> Tensor:
        """A buffer for u of a block, (H, rows, S, D), for all steps."""
        if not self.buffers:
            positions, heads, size = self.keys.shape[1:]
            self.buffers.append(self.keys.new_empty(heads, self.rows, positions, size))
        return self.buffers[0]


def _array(x: Tensor) -> Any:
    return x.detach().contiguous().numpy()


class LocationFilters:
    """From the past to u by products of matrices, and gradients summed over blocks; without autograd.

    With taps_s, the C · W numbers of the past around a position, as rows (H, rows · S, C·W), on a plane W = Y · X:

        features = taps Fᵀ (H, rows · S, F),  u = features U (H, rows · S, D)
        grad_U = featuresᵀ grad_u,  grad_features = grad_u Uᵀ
        grad_F = grad_featuresᵀ taps,  grad_taps = grad_features F

    Or `at_once`, where that is less work, u = taps M with the matrix M = Fᵀ U (H, C·W, D):

        grad_M = tapsᵀ grad_u,  grad_taps = grad_u Mᵀ,  and at the end  grad_F = U grad_Mᵀ,  grad_U = F grad_M

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
            taps, and features, or taps again if u = taps M; (H, rows · S, ·).
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
        # grad_F and grad_U follow from grad_M, in `gradients`
        if self.at_once and grad_past is None:
            return
        grad_taps = torch.bmm(flat, self.matrix.mT)  # grad_features if not `at_once`
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
        """The gradients of F and U, without the padding of taps."""
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
    # a channel padded with zeros, so that the loop over taps needs no test for its ends
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
            # the padding: the matrix has zeros there, but 0 · NaN would not be 0
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
                # sums beyond the ends are dropped
                padded[:] = 0
                for y in range(rows):
                    for x in range(columns):
                        window = grad_taps[h, r, y * columns + x]
                        for i in range(height):
                            line, first = padded[y + i], (c * height + i) * width
                            for j in range(width):
                                line[x + j] += window[first + j]
                grad_past[r, h, c] = padded[above : above + rows, left : left + columns]


@compiled
def energies_kernel(
    sentences: Any, query: Any, keys: Any, v: Any, large: Any, u: Any, out: Any, start: int, stop: int
) -> None:
    """out (R, H, S) for the rows start … stop of query (R, H, D) and u (H, R, S, D); v (H, D).

    Row r is compared with the keys (B, S, H, D) of sentence `sentences[r]`.
    """
    (heads, positions), size = out.shape[1:], v.shape[1]
    one = large / large  # of the type of `large`, as a literal would be float64
    half = one / (one + one)
    for r in range(start, stop):
        b = sentences[r]
        for h in range(heads):
            q, factor = query[r, h], v[h]
            for s in range(positions):
                key, location = keys[b, s, h], u[h, r, s]
                # Σ v (½ - r), times 2 after the sum
                share = one - one
                for d in range(size):
                    p = power(q[d] + key[d] + location[d])
                    share += factor[d] * (half - one / (one + (large if p > large else p)))
                out[r, h, s] = share + share


@compiled
def gradients_kernel(
    query: Any,
    keys: Any,
    g: Any,
    grad_query: Any,
    grad_v: Any,
    v: Any,
    large: Any,
    u: Any,
    start: int,
    stop: int,
) -> None:
    """u (H, R, S, D) ← grad_u; grad_query (B, K, H, D) ← its sums over s.

    grad_v (B, K, H, D) is the part of each row, so that no two threads add to the same number. g (B, K, H, S).
    """
    (hypotheses, heads, positions), size = g.shape[1:], v.shape[1]
    one = large / large
    half, two, zero = one / (one + one), one + one, one - one
    ratio = np.empty(size, v.dtype)  # r of a position
    for r in range(start, stop):
        b, k = r // hypotheses, r % hypotheses
        for h in range(heads):
            q, factor, sums, shares = query[b, k, h], v[h], grad_query[b, k, h], grad_v[b, k, h]
            sums[:] = zero
            shares[:] = zero
            for s in range(positions):
                # 2 g: once in 2 g (½ - r) for v, and with another 2 in 4 g v r (1 - r)
                key, location, gradient = keys[b, s, h], u[h, r, s], two * g[b, k, h, s]
                # a loop for each line of the equations: one that writes several rows may not use vector instructions
                for d in range(size):
                    p = power(q[d] + key[d] + location[d])
                    ratio[d] = one / (one + (large if p > large else p))
                for d in range(size):
                    shares[d] += gradient * (half - ratio[d])
                for d in range(size):
                    location[d] = two * gradient * factor[d] * (ratio[d] - ratio[d] * ratio[d])
                for d in range(size):
                    sums[d] += location[d]
