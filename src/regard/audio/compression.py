"""Compression of spectrograms: a logarithm, scaled, shifted and clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.shapes import Float


@dataclass(frozen=True)
class Compression:
    """The logarithm of magnitudes or energies M, scaled, shifted and clipped: v = clip(a ln max(ε, M) + b).

    `logarithm` and `decibels` make the usual ones.

    Args:
        floor: ε > 0, the smallest magnitude, which keeps the logarithm of silence finite.
        scale, offset: a > 0 and b.
        minimum, maximum: the limits of v; None: no limit.

    Raises:
        ConfigError: for a floor or a scale that is not above 0, or a minimum that is not below the maximum.

    >>> Compression()(torch.tensor([1.0, 0.0]))
    tensor([  0.0000, -11.5129])
    """

    floor: float = 1e-5
    scale: float = 1.0
    offset: float = 0.0
    minimum: float | None = None
    maximum: float | None = None

    def __post_init__(self) -> None:
        for name in ("floor", "scale"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a number above 0; got {getattr(self, name)!r}.", (name,))
        if self.minimum is not None and self.maximum is not None and self.minimum >= self.maximum:
            raise ConfigError(f"minimum {self.minimum:g} must be below maximum {self.maximum:g}.", ("minimum",))

    def __call__(self, energies: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The compressed values of non-negative magnitudes or energies."""
        values = energies.clamp(min=self.floor).log()
        if self.scale != 1 or self.offset != 0:
            values = values * self.scale + self.offset
        return values if self.minimum is None and self.maximum is None else values.clamp(self.minimum, self.maximum)

    def inverse(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The energies of compressed values; clipped values become the limits."""
        if self.minimum is not None or self.maximum is not None:
            values = values.clamp(self.minimum, self.maximum)
        return torch.exp((values - self.offset) / self.scale)


def logarithm(floor: float = 1e-5, base: float = math.e) -> Compression:
    """The logarithm of max(ε, M) to a base.

    >>> logarithm(1e-10, base=10)(torch.tensor([100.0, 0.0])).round(decimals=4)
    tensor([  2., -10.])
    """
    return Compression(floor, 1 / math.log(base))


def decibels(
    *,
    floor: float = 1e-5,
    reference: float = 20.0,
    span: float = 100.0,
    bound: float = 1.0,
    symmetric: bool = False,
) -> Compression:
    """Decibels below a reference, mapped to [0, k] or, if symmetric, to [-k, k], and clipped.

    With S = 20 log₁₀ max(ε, M) - reference and N = (S + span) / span, the values are k N, or 2 k N - k.

    Args:
        floor: ε.
        reference, span: in dB.
        bound: k.

    >>> decibels()(torch.tensor([10.0, 1.0, 0.0]))
    tensor([1.0000, 0.8000, 0.0000])
    >>> decibels(bound=4, symmetric=True)(torch.tensor([10.0, 1.0, 0.0]))
    tensor([ 4.0000,  2.4000, -4.0000])
    """
    width, least = (2 * bound, -bound) if symmetric else (bound, 0.0)
    return Compression(
        floor,
        scale=width * 20 / math.log(10) / span,
        offset=width * (1 - reference / span) + least,
        minimum=least,
        maximum=bound,
    )
