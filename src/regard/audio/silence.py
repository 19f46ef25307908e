"""Silence at the ends of sounds."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.shapes import Float


def sounding(
    samples: Float[Tensor, " samples"],
    *,
    threshold: float = -40.0,
    win_length: int = 1024,
    hop_length: int = 256,
    margin: int = 0,
) -> tuple[int, int]:
    """The start and stop of the range of samples that are not silent; (0, 0) if the sound has no energy.

    A frame is silent if its root mean square is below the loudest frame's by more than the threshold. Time labels of a
    trimmed sound have to be shifted by the start.

    Args:
        threshold: in dB, below 0.
        win_length, hop_length: of the frames, in samples; frames are centred, and zeros surround the sound.
        margin: additional samples before the first and after the last frame that is not silent.

    Raises:
        ConfigError: for a threshold that is not below 0.

    >>> sound = torch.cat([torch.zeros(4000), torch.ones(4000), torch.zeros(4000)])
    >>> sounding(sound)
    (3584, 8704)
    """
    if threshold >= 0:
        raise ConfigError(
            f"threshold must be below 0, in dB relative to the loudest frame; got {threshold:g}.", ("threshold",)
        )
    half = win_length // 2
    frames = torch.nn.functional.pad(samples.double(), (half, half)).unfold(0, win_length, hop_length)
    energies = frames.square().mean(1)
    loud = (energies > energies.max() * 10 ** (threshold / 10)).nonzero()
    if not len(loud):
        return 0, 0
    start, stop = int(loud[0]) * hop_length - margin, (int(loud[-1]) + 1) * hop_length + margin
    return max(0, start), min(len(samples), stop)


def trim_silence(
    samples: Float[Tensor, " samples"],
    *,
    threshold: float = -40.0,
    win_length: int = 1024,
    hop_length: int = 256,
    margin: int = 0,
) -> Float[Tensor, " trimmed"]:
    """A sound without silence at its ends, with arguments and errors of `sounding`; unchanged if it has no energy.

    >>> sound = torch.cat([torch.zeros(4000), torch.ones(4000), torch.zeros(4000)])
    >>> trim_silence(sound).shape
    torch.Size([5120])
    """
    start, stop = sounding(samples, threshold=threshold, win_length=win_length, hop_length=hop_length, margin=margin)
    return samples[start:stop] if stop else samples


def find_endpoint(
    samples: Float[Tensor, " samples"], sample_rate: int, *, threshold: float = -40.0, duration: float = 0.8
) -> int:
    """The end of a synthesised sound: a quarter into its first silence, or its length if there is none.

    As in keithito's Tacotron, windows begin at multiples of a quarter of their length, from the first multiple on.

    Args:
        threshold: in dB of full scale, above all samples of silence.
        duration: of the silence, in seconds.

    >>> find_endpoint(torch.cat([torch.ones(8000), torch.zeros(32000)]), 16000)
    12800
    """
    window = int(sample_rate * duration)
    hop = window // 4
    for start in range(hop, len(samples) - window, hop):
        if float(samples[start : start + window].abs().max()) < 10 ** (threshold / 20):
            return start + hop
    return len(samples)
