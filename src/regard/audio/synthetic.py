"""Synthetic sound from a text, so that tests and examples need no recordings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.shapes import Float


@dataclass(frozen=True, eq=False)
class SyntheticSpeech:
    """A synthetic sound with the time interval of each symbol.

    Args:
        samples: (N,) in [-1, 1].
        sample_rate: in Hz.
        intervals: start and end of each symbol in seconds, without gaps between them.
    """

    samples: Float[Tensor, " samples"]
    sample_rate: int
    intervals: list[tuple[float, float]]


def synthetic_speech(
    text: str, sample_rate: int = 16000, *, seed: int = 0, pitch: float = 120.0, silence: float = 0.1
) -> SyntheticSpeech:
    """A sound for each character of a text: vowels hum, other letters hiss, blanks are silent.

    A vowel is a sum of harmonics of a falling pitch, weighted by three formants that depend on the character; another
    letter is noise around a frequency that depends on it. The same arguments give the same sound.

    Args:
        seed: of noise and durations, 60 to 120 ms a character.
        pitch: in Hz, at the beginning.
        silence: before and after the text, in seconds.

    >>> speech = synthetic_speech("a sea")
    >>> speech.sample_rate, len(speech.intervals)
    (16000, 5)
    >>> 0.4 < len(speech.samples) / 16000 < 0.9
    True
    """
    generator = torch.Generator().manual_seed(seed)
    count = len(text)
    durations = (sample_rate * (0.06 + 0.06 * torch.rand(count, generator=generator))).round().long().tolist()
    around = round(silence * sample_rate)
    pieces, at, angle = [torch.zeros(around)], around, 0.0
    intervals: list[tuple[float, float]] = []
    for index, (character, size) in enumerate(zip(text, durations, strict=True)):
        height = pitch * (1 - 0.3 * index / max(count, 1))
        fade = torch.sin(math.pi * (torch.arange(size) + 0.5) / size).sqrt()
        piece, angle = _piece(character, size, sample_rate, height, angle, generator)
        pieces.append(fade * piece)
        intervals.append((at / sample_rate, (at + size) / sample_rate))
        at += size
    return SyntheticSpeech(torch.cat([*pieces, torch.zeros(around)]), sample_rate, intervals)


def _piece(
    character: str, size: int, sample_rate: int, height: float, angle: float, generator: torch.Generator
) -> tuple[Tensor, float]:
    """The sound of a character, and the angle of the pitch after it."""
    noise = torch.randn(size, generator=generator)
    code = ord(character.lower())
    after = angle + 2 * math.pi * height * size / sample_rate
    if not character.isalnum():
        return 1e-4 * noise, after
    if character.lower() in "aeiouyаеёиоуыэюя":
        formants = [(300 + 97 * (code % 7), 0.5), (900 + 211 * (code % 9), 0.25), (2500 + 97 * (code % 5), 0.1)]
        angles = angle + 2 * math.pi * height / sample_rate * torch.arange(size)
        sound = torch.zeros(size)
        for harmonic in range(1, int(min(4000.0, sample_rate / 2) / height)):
            strength = sum(a * math.exp(-(((harmonic * height - f) / 150) ** 2)) for f, a in formants)
            sound = sound + (strength + 0.002) * torch.sin(harmonic * angles)
        return 0.4 * sound, after
    # noise of some hundred Hz, shifted to the middle of its band
    middle = 2 * math.pi * (1000 + 200 * (11 * code % 26)) / sample_rate
    width = max(1, sample_rate // 1600)
    slow = torch.nn.functional.avg_pool1d(noise[None], 2 * width + 1, 1, width)[0]
    return 0.1 * math.sqrt(2 * width + 1) * slow * torch.cos(middle * torch.arange(size)), after
