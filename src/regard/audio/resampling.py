"""Resampling by a polyphase low-pass filter."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import ConfigError
from regard.shapes import Float

ZEROS = 128
"""Zero crossings of the low-pass filter on each side of its middle."""
ATTENUATION = 100.0
"""The attenuation above half of the lower rate, in dB."""


def resample(samples: Float[Tensor, "... samples"], rate: int, new_rate: int) -> Float[Tensor, "... resampled"]:
    """A sound at another sample rate, limited to frequencies below half of the lower rate.

    With the rates reduced to M / L, output n is the band-limited sound at sample time n M / L:
    y_n = Σ_t x_t h(n M / L - t) with h(s) = c sinc(c s) w(s), the cutoff c as a share of half the old rate and a Kaiser
    window w. The L phases are computed by one strided convolution. The pass band reaches 95 % of half the lower rate.

    Args:
        rate, new_rate: of the samples and of the result, in Hz.

    Returns:
        ⌈N · new_rate / rate⌉ samples.

    Raises:
        ConfigError: for rates that are not above 0.

    >>> resample(torch.ones(1000), 8000, 16000)[500:503].round(decimals=3)
    tensor([1., 1., 1.])
    """
    if rate <= 0 or new_rate <= 0:
        raise ConfigError(f"Sample rates must be above 0; got {rate} and {new_rate}.", ("sample_rate",))
    if rate == new_rate:
        return samples
    shared = math.gcd(rate, new_rate)
    old, new = rate // shared, new_rate // shared
    taps, reach = _taps(old, new)
    size = samples.shape[-1]
    count = -(-size * new // old)
    blocks = -(-count // new)
    # block b has outputs bL … bL + L - 1, at sample times from bM to (b + 1) M
    rows = functional.pad(samples.reshape(-1, 1, size), (reach, max(0, blocks * old + reach - size)))
    result = functional.conv1d(rows, taps.to(samples), stride=old)
    return result.mT.reshape(*samples.shape[:-1], -1)[..., :count]


@lru_cache(maxsize=16)
def _taps(old: int, new: int) -> tuple[Tensor, int]:
    """The filters of the phases (L, 1, taps) in float64, and the number of their samples before a block."""
    beta = 0.1102 * (ATTENUATION - 8.7)
    # Kaiser's rule for the transition band, half of which is below the cutoff
    transition = (ATTENUATION - 7.95) / (2.285 * 2 * math.pi * ZEROS)
    lower = min(1.0, new / old)
    cutoff = lower * (1 - transition / 2)
    width = ZEROS / lower
    reach = math.ceil(width)
    # phase p of a block is at sample time p M / L
    phases = torch.arange(new, dtype=torch.float64)[:, None] * (old / new)
    places = torch.arange(-reach, old + reach, dtype=torch.float64)
    distance = phases - places
    window = torch.special.i0(beta * (1 - (distance / width).clamp(-1, 1).square()).sqrt()) / torch.special.i0(
        torch.tensor(beta, dtype=torch.float64)
    )
    taps = cutoff * torch.sinc(cutoff * distance) * window.where(distance.abs() <= width, 0)
    return taps[:, None], reach
