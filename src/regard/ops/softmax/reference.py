"""Softmax over a support, which gives zeros to a row without any."""

from __future__ import annotations

from torch import Tensor

from regard.shapes import Bool, Float


def masked_softmax(
    energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None = None
) -> Float[Tensor, "*rows S"]:
    """w_s = exp(e_s) / Σ_{s' in support} exp(e_s'), exactly 0 outside the support.

    A row without support gives zero weights and zero gradient, never NaN. Half types are computed in float32.

    >>> import torch
    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]]))
    tensor([[1., 0.],
            [0., 0.]])
    """
    working = energies.float() if energies.element_size() < 4 else energies
    if support is None:
        return working.softmax(-1).to(energies.dtype)
    # a row without support is a softmax of zeros first, since one of only -∞ would be NaN, and so would its gradient
    dead = ~support.any(-1, keepdim=True)
    filled = working.masked_fill(~support, float("-inf")).masked_fill(dead, 0.0)
    return filled.softmax(-1).masked_fill(~support, 0.0).to(energies.dtype)


weigh = masked_softmax


def pull_back(gradient: Tensor, weights: Tensor) -> Tensor:
    """grad_e = w (grad_w - Σ w grad_w): the gradient of the energies from that of the weights."""
    return weights * (gradient - (weights * gradient).sum(-1, keepdim=True))
