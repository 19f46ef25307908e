"""Sharpening: a factor on energies."""

from __future__ import annotations

from torch import Tensor

from regard.shapes import Float


def checked(sharpening: float) -> float:
    """The factor, if it is above 0; otherwise an error."""
    if sharpening <= 0:
        raise ValueError(f"sharpening={sharpening} must be above 0.")
    return sharpening


def sharpen(energies: Float[Tensor, "R H S"], sharpening: float) -> Float[Tensor, "R H S"]:
    """β e."""
    return energies if sharpening == 1.0 else energies * sharpening
