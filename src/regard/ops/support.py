"""Energies of positions outside a support are -∞, which every normaliser gives the weight 0."""

from __future__ import annotations

from torch import Tensor

from regard.shapes import Bool, Float


def confine(energies: Float[Tensor, "*rows S"], support: Bool[Tensor, "*#rows S"] | None) -> Float[Tensor, "*rows S"]:
    """Energies in float32 or wider, -∞ outside the support."""
    working = energies.float() if energies.element_size() < 4 else energies
    return working if support is None else working.masked_fill(~support, float("-inf"))


def descend(energies: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows S"]:
    """Energies less the largest of their row, so that the largest is 0; a row of only -∞ stays so."""
    top = energies.amax(-1, keepdim=True)
    return energies - top.masked_fill(top.isneginf(), 0.0)  # -∞ - (-∞) would be NaN
