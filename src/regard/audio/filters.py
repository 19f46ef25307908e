"""Pre-emphasis of high frequencies, and mel filters as in Slaney's Auditory Toolbox."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import ConfigError
from regard.shapes import Float

Start = Literal["silence", "extrapolation"]


def pre_emphasis(
    samples: Float[Tensor, "... samples"], coefficient: float, start: Start = "silence"
) -> Float[Tensor, "... samples"]:
    """The high-pass filter y_t = x_t - κ x_{t-1}.

    Args:
        coefficient: κ.
        start: the sample before the first. silence: y_0 = x_0. extrapolation: y_0 = x_0 + (2 x_0 - x_1), as in
            librosa's `effects.preemphasis`.

    >>> pre_emphasis(torch.tensor([1.0, 1.0, 1.0]), 0.5)
    tensor([1.0000, 0.5000, 0.5000])
    """
    first = samples[..., :1]
    if start == "extrapolation" and samples.shape[-1] > 1:
        first = first + 2 * first - samples[..., 1:2]
    return torch.cat([first, samples[..., 1:] - coefficient * samples[..., :-1]], -1)


def de_emphasis(samples: Float[Tensor, "... samples"], coefficient: float) -> Float[Tensor, "... samples"]:
    """The inverse filter x_t = y_t + κ x_{t-1}, which starts from silence.

    The recurrence is a product of filters of 1, 2, 4, … samples, 1 / (1 - κz) = (1 + κz) (1 + κ²z²) (1 + κ⁴z⁴) …, up
    to double precision: 11 passes for κ = 0.97.

    >>> de_emphasis(torch.tensor([1.0, 0.5, 0.5]), 0.5)
    tensor([1., 1., 1.])
    """
    reach, factor = 1, coefficient
    while reach < samples.shape[-1] and abs(factor) > 1e-17:
        samples = torch.cat([samples[..., :reach], samples[..., reach:] + factor * samples[..., :-reach]], -1)
        reach, factor = 2 * reach, factor * factor
    return samples


FilterNorm = Literal["area", "sum"]
Numbers = NDArray[np.float64]

_LINEAR, _CORNER = 200 / 3, 1000.0  # Hz for each mel below the corner
_STEP = np.log(6.4) / 27  # of the logarithm of frequency, for each mel above it


def hertz_to_mel(frequency: Numbers | float) -> Numbers:
    """Slaney's mel scale: linear below 1,000 Hz (15 mel), logarithmic above.

    >>> hertz_to_mel(np.array([0.0, 1000.0, 6400.0])).round(9).tolist()
    [0.0, 15.0, 42.0]
    """
    frequency = np.asarray(frequency, dtype=np.float64)
    above = _CORNER / _LINEAR + np.log(np.maximum(frequency, _CORNER) / _CORNER) / _STEP
    return np.where(frequency < _CORNER, frequency / _LINEAR, above)


def mel_to_hertz(mel: Numbers | float) -> Numbers:
    """The inverse of `hertz_to_mel`.

    >>> mel_to_hertz(np.array([0.0, 15.0, 42.0])).round(9).tolist()
    [0.0, 1000.0, 6400.0]
    """
    mel = np.asarray(mel, dtype=np.float64)
    corner = _CORNER / _LINEAR
    return np.where(mel < corner, mel * _LINEAR, _CORNER * np.exp(_STEP * (np.maximum(mel, corner) - corner)))


def mel_filters(
    sample_rate: int, n_fft: int, num_mels: int, f_min: float, f_max: float, norm: FilterNorm = "area"
) -> Float[Tensor, "mels bins"]:
    """Triangular filters of equal width in mel, as weights (num_mels, n_fft / 2 + 1) in float64.

    Filter m rises from corner f_m to f_{m+1} and falls to f_{m+2}. The corners are equally spaced in mel from f_min to
    f_max. At the frequency f of an STFT its weight is c_m max(0, min((f - f_m) / (f_{m+1} - f_m), (f_{m+2} - f) /
    (f_{m+2} - f_{m+1}))).

    Args:
        f_min, f_max: in Hz.
        norm: area: unit area in Hz, c_m = 2 / (f_{m+2} - f_m); sum: the weights of each filter sum to 1.

    Raises:
        ConfigError: for a filter that contains no frequency of the STFT.

    Source: Slaney, Auditory Toolbox (1998), with any number of filters and range of frequencies.

    >>> mel_filters(16000, 1024, 80, 50.0, 7600.0).shape
    torch.Size([80, 513])
    """
    return torch.from_numpy(_filters(sample_rate, n_fft, num_mels, f_min, f_max, norm).copy())


@cache
def _filters(sample_rate: int, n_fft: int, num_mels: int, f_min: float, f_max: float, norm: FilterNorm) -> Numbers:
    corners = mel_to_hertz(np.linspace(hertz_to_mel(f_min), hertz_to_mel(f_max), num_mels + 2))
    frequencies = np.arange(n_fft // 2 + 1) * (sample_rate / n_fft)
    lower, centre, upper = (corners[first : first + num_mels, None] for first in range(3))
    rise, fall = (frequencies - lower) / (centre - lower), (upper - frequencies) / (upper - centre)
    weights = np.maximum(0, np.minimum(rise, fall))
    empty = np.flatnonzero(weights.sum(1) == 0)
    if len(empty):
        low, high = corners[empty[0]], corners[empty[0] + 2]
        raise ConfigError(
            f"Mel filter {empty[0] + 1} of {num_mels}, from {low:.1f} to {high:.1f} Hz, contains no frequency of an "
            f"STFT of {n_fft} samples at {sample_rate:,} Hz ({sample_rate / n_fft:.1f} Hz apart).\n"
            "  Use fewer num_mels or a larger n_fft.",
            ("num_mels",),
        )
    scale = 2 / (corners[2:] - corners[:-2]) if norm == "area" else 1 / weights.sum(1)
    return weights * scale[:, None]
