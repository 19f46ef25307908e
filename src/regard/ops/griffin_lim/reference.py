"""Griffin and Lim's algorithm by torch's transforms, one sound after the other."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def griffin_lim(
    magnitudes: Tensor,
    lengths: Tensor,
    phases: Tensor,
    window: Tensor,
    *,
    hop_length: int,
    margin: int,
    reflect: bool,
    iterations: int,
    momentum: float,
) -> Tensor:
    """As the operation."""
    sounds = []
    for target, start in zip(magnitudes.split(lengths.tolist()), phases.split(lengths.tolist()), strict=True):
        estimate, before = torch.polar(torch.ones_like(start), start), torch.zeros_like(start)
        for _ in range(iterations):
            sound = inverse(target * _direction(estimate), window, hop_length, margin)
            consistent = forward(sound, window, hop_length, margin, reflect)
            # t / (1 + α), which has the same phases
            estimate, before = consistent - momentum / (1 + momentum) * before, consistent
        sounds.append(inverse(target * _direction(estimate), window, hop_length, margin))
    return torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True)


def forward(sound: Tensor, window: Tensor, hop_length: int, margin: int, reflect: bool) -> Tensor:
    """The transform (T, bins) of a sound (samples,)."""
    reflected = reflect and len(sound) > 0
    padded = sound[reflection(len(sound), margin)] if reflected else functional.pad(sound, (margin, margin))
    return torch.fft.rfft(padded.unfold(0, len(window), hop_length) * window)


def inverse(spectrum: Tensor, window: Tensor, hop_length: int, margin: int) -> Tensor:
    """The sound whose transform is nearest to a spectrum: frames and windows are added up, and divided."""
    frames = torch.fft.irfft(spectrum, len(window)) * window
    weights = window.square().expand_as(frames)
    size = (len(frames) - 1) * hop_length + len(window)
    total, weight = (
        functional.fold(x.T[None], (1, size), (1, len(window)), stride=(1, hop_length)).flatten()
        for x in (frames, weights)
    )
    return (total / weight.clamp(min=1e-8))[margin : size - margin]


def reflection(size: int, margin: int) -> Tensor:
    """Which sample stands at each place of a sound that is reflected in its ends, again and again if it is short."""
    last = max(size - 1, 1)
    phase = torch.arange(-margin, size + margin) % (2 * last)
    return torch.minimum(phase, 2 * last - phase).clamp(max=max(size - 1, 0))


def _direction(spectrum: Tensor) -> Tensor:
    return spectrum / spectrum.abs().clamp(min=1e-15)
