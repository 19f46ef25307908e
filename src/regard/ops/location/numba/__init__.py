"""Location-sensitive energies as compiled loops around products of matrices, a block of sentences at a time.

    u_s = Σ_f (F_f * past)_s U_f,  e_s = Σ_d v_d tanh(q_d + k_sd + u_sd)
    grad_u_sd = g_s v_d (1 - tanh²),  grad_q_d = Σ_s grad_u_sd,  grad_k_sd = Σ grad_u_sd over the K rows that share k_s,
    grad_v_d = Σ_s g_s tanh(q_d + k_sd + u_sd),  then grad_U, grad_F and grad_past from grad_u by products

u (H, rows, S, D) of a block is made in a buffer by the library for products. A loop adds q and k on the fly; in the
backward pass it writes grad_u over u. With one row and one head in a sentence grad_u is grad_k, so u is made in the
buffer of grad_k and needs no memory of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ops.compiled.elementary import LARGE
from regard.ops.location.numba import tangent
from regard.ops.location.numba.filters import Filters
from regard.ops.precision import without_autocast
from regard.ops.threads import parallel_for

BLOCK_ELEMENTS = 1 << 19
"""Numbers of u that are held at once, or those of one sentence."""


def energies(query: Tensor, keys: Tensor, past: Tensor, filters: Tensor, projection: Tensor, v: Tensor) -> Tensor:
    """(B, K, H, S) from float32 or float64."""
    out = query.new_empty(*query.shape[:3], keys.shape[1])
    if not out.numel() or not v.numel():
        return out.zero_()
    with torch.no_grad(), without_autocast("cpu"):
        Steps(keys, filters, projection, v, query.shape[1]).energies(query, past, out)
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
        steps = Steps(keys, filters, projection, v, query.shape[1])
        grad_query = torch.empty(query.shape, dtype=query.dtype)
        past_gradient = torch.empty(past.shape, dtype=past.dtype) if grad_past else None
        steps.gradients(gradient, query, past, grad_query, past_gradient)
    return grad_query, steps.grad_keys, past_gradient, *steps.convolution.gradients(), steps.grad_v


class Steps:
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
        self.convolution = Filters(filters, projection)
        self.hypotheses = hypotheses
        self.keys_are_own = hypotheses == v.shape[0] == 1  # no two rows share keys, and (B, S, 1, D) is (1, B, S, D)
        v = v.detach().clone()  # numpy would pin a parameter's memory
        self.keys = keys.detach().contiguous()
        self.arrays = self.keys.numpy(), v.numpy(), LARGE[v.numpy().dtype]
        # from which sentence to which: as many as `BLOCK_ELEMENTS` allows
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
            parallel_for(tangent.energies, arguments, u.shape[1], u.numel())

    def gradients(
        self, gradient: Tensor, query: Tensor, past: Tensor, grad_query: Tensor, grad_past: Tensor | None
    ) -> None:
        """Fills the gradients of query (B, K, H, D) and of past (B, K, H, C, S) if given; adds the others to sums."""
        # shares (B, K, H, D) are the gradients of v from each row, which threads may write side by side
        (k, *constants), q, g = self.arrays, _array(query), _array(gradient)
        shares, is_first = torch.empty(query.shape, dtype=query.dtype), not self.sums
        if is_first:
            self.sums.append(torch.empty_like(self.keys))
        for start, stop in self.blocks:
            rows = (stop - start) * self.hypotheses
            total = self.grad_keys[start:stop]
            is_total = self.keys_are_own and is_first
            u = total.squeeze(2)[None] if is_total else self._buffer()[:, :rows]
            # u again, which would be too large to keep; then grad_u in its place, and what follows from it
            taps, features = self.convolution.locate(past[start:stop].flatten(0, 1), u)
            of_sentences = (q, k, g, grad_query.numpy(), shares.numpy())
            arguments = (*(x[start:stop] for x in of_sentences), *constants, u.numpy())
            parallel_for(tangent.gradients, arguments, rows, u.numel())
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
        """Room for u of a block, (H, rows, S, D); made once for all steps, of which the last block may use a part."""
        if not self.buffers:
            positions, heads, size = self.keys.shape[1:]
            self.buffers.append(self.keys.new_empty(heads, self.rows, positions, size))
        return self.buffers[0]


def _array(x: Tensor) -> Any:
    """As kernels take it."""
    return x.detach().contiguous().numpy()
