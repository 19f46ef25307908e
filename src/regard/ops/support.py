"""Energies with nothing to see outside a support."""

from __future__ import annotations

from torch import Tensor

from regard.shapes import Bool, Float


def confine(energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None) -> Float[Tensor, "*rows S"]:
    """Energies in float32 or wider, -∞ outside the support."""
    working = energies.float() if energies.element_size() < 4 else energies
    return working if support is None else working.masked_fill(~support, float("-inf"))


def descend(energies: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows S"]:
    """Energies below the largest of their row, which becomes 0; -∞ in a row that has no other."""
    top = energies.amax(-1, keepdim=True)
    return energies - top.masked_fill(top.isneginf(), 0.0)
