"""Hardmax: w_s = 1 at the first of the largest energies of the support, else 0."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.ops.support import confine
from regard.shapes import Bool, Float


def hardmax(
    energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None = None
) -> Float[Tensor, "*rows S"]:
    """1 at the largest energy of the support, the first of equal ones, 0 elsewhere; zeros in a row without support.

    There is no gradient.

    >>> hardmax(torch.tensor([[1.0, 2.0, 2.0]]))
    tensor([[0., 1., 0.]])
    """
    if energies.shape[-1] == 0:
        return torch.zeros_like(energies)
    confined = confine(energies.detach(), support)
    # one place by argmax, so that equal energies do not share; a row of only -∞ has a place, but no support
    first = torch.arange(energies.shape[-1], device=energies.device) == confined.argmax(-1, keepdim=True)
    return (first & ~confined.isneginf()).to(energies.dtype)
