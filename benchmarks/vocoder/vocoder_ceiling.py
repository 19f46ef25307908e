"""What is lost between a true mel spectrogram and that of the sound made of it: by a vocoder, and by Griffin-Lim.

    regard data vocoder hifi-gan/
    python benchmarks/vocoder/vocoder_ceiling.py hifi-gan/ RECORDING.wav …

Recordings are mono WAV files of 16 bits at 16,000 or 22,050 Hz. The figure is mel cepstral distortion in decibels,
frame by frame, as what is made is as long as the recording. Mel filters, least squares and Griffin-Lim are written
out here, independently of the library's.
"""

from __future__ import annotations

import argparse
import math
import time
import wave
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.audio.vocoder import Vocoder, load_vocoder

RATE, TRANSFORM, HOP, BANDS, TOP = 22050, 1024, 256, 80, 8000
MARGIN = (TRANSFORM - HOP) // 2
WINDOW = torch.hann_window(TRANSFORM)


def read(path: Path) -> Tensor:
    """A recording at 22,050 Hz, of whole frames; from 16,000 Hz it is resampled by its Fourier transform."""
    with wave.open(str(path)) as file:
        rate = file.getframerate()
        if (file.getnchannels(), file.getsampwidth()) != (1, 2) or rate not in (16000, RATE):
            raise SystemExit(f"{path}: expected mono, 16 bits, 16,000 or 22,050 Hz")
        x = torch.from_numpy(np.frombuffer(file.readframes(file.getnframes()), dtype="<i2") / 32768.0)
    if rate != RATE:
        x = x[: len(x) // 320 * 320]
        spectrum, length = torch.fft.rfft(x), len(x) * 441 // 320
        x = torch.fft.irfft(pad(spectrum, (0, length // 2 + 1 - len(spectrum))), n=length) * (length / len(x))
    return x[: len(x) // HOP * HOP].float()


def filters() -> Tensor:
    """Slaney's mel filters of unit area, (BANDS, TRANSFORM / 2 + 1)."""
    step = math.log(6.4) / 27
    top = 15 + math.log(TOP / 1000) / step
    mel = np.linspace(0, top, BANDS + 2)
    corners = np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(step * (np.maximum(mel, 15) - 15)))
    low, centre, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    frequency = np.arange(TRANSFORM // 2 + 1) * RATE / TRANSFORM
    rise, fall = (frequency - low) / (centre - low), (high - frequency) / (high - centre)
    return torch.from_numpy(np.maximum(0, np.minimum(rise, fall)) * 2 / (high - low)).float()


FILTERS = filters()


def magnitudes(x: Tensor) -> Tensor:
    """(frequencies, frames), as HiFi-GAN's program computes them."""
    padded = pad(x[None], (MARGIN, MARGIN), mode="reflect")[0]
    return torch.stft(padded, TRANSFORM, HOP, window=WINDOW, center=False, return_complex=True).abs()


def log_mel(x: Tensor) -> Tensor:
    """(bands, frames)."""
    return (FILTERS @ (magnitudes(x).square() + 1e-9).sqrt()).clamp_min(1e-5).log()


def distortion(made: Tensor, true: Tensor) -> float:
    """Mel cepstral distortion in decibels: coefficients 1 to 13, the mean over frames."""
    order, band = torch.arange(1, 14)[:, None], torch.arange(BANDS) + 0.5
    cosines = math.sqrt(2 / BANDS) * torch.cos(math.pi / BANDS * order * band)
    return float((cosines @ (made - true)).norm(dim=0).mean()) * 10 * math.sqrt(2) / math.log(10)


def least_squares(mel: Tensor, steps: int = 200) -> Tensor:
    """Magnitudes that are not negative and fit a mel spectrogram, by multiplicative updates."""
    energies = mel.exp()
    found = (torch.linalg.pinv(FILTERS) @ energies).clamp_min(1e-6)
    wanted, gram = FILTERS.T @ energies, FILTERS.T @ FILTERS
    for _ in range(steps):
        found = found * wanted / (gram @ found + 1e-12)
    return found


def griffin_lim(magnitude: Tensor, steps: int = 30, momentum: float = 0.99) -> Tensor:
    """A sound with these magnitudes: fast Griffin-Lim (Perraudin et al. 2013) from random phases."""
    drawn = torch.rand(magnitude.shape, generator=torch.Generator().manual_seed(0))
    size, phase = pad(magnitude, (2, 2)), pad(torch.polar(torch.ones_like(drawn), 2 * math.pi * drawn), (2, 2), value=1)
    before = torch.zeros_like(phase)
    for _ in range(steps):
        sound = torch.istft(size * phase, TRANSFORM, HOP, window=WINDOW)
        again = torch.stft(sound, TRANSFORM, HOP, window=WINDOW, pad_mode="constant", return_complex=True)
        phase = again - momentum / (1 + momentum) * before
        before, phase = again, phase / (phase.abs() + 1e-16)
    first = 2 * HOP - TRANSFORM // 2 + MARGIN
    return torch.istft(size * phase, TRANSFORM, HOP, window=WINDOW)[first : first + magnitude.shape[1] * HOP]


def measure(vocoder: Vocoder, path: Path) -> list[float]:
    """Prints and returns the distortions of a recording."""
    x = read(path)
    true, seconds = log_mel(x), len(x) / RATE
    ways = {
        "vocoder": lambda: vocoder(true.T[None])[0],
        "Griffin-Lim": lambda: griffin_lim(least_squares(true)),
        "Griffin-Lim, true magnitudes": lambda: griffin_lim(magnitudes(x)),
    }
    print(f"{path.name}, {seconds:.1f} s")
    results = []
    for name, way in ways.items():
        start = time.process_time()
        made = log_mel(way())
        taken = (time.process_time() - start) / seconds
        results.append(distortion(made, true))
        away = float((made - true).abs().mean())
        print(
            f"  {name:30} {results[-1]:5.2f} dB, {away:.3f} in a logarithm; {taken:.2f} CPU s for a second", flush=True
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocoder", type=Path)
    parser.add_argument("recordings", type=Path, nargs="+")
    arguments = parser.parse_args()
    vocoder = load_vocoder(arguments.vocoder)
    rows = [measure(vocoder, path) for path in arguments.recordings]
    print("mean", *(f"{sum(column) / len(rows):.2f}" for column in zip(*rows, strict=True)))


if __name__ == "__main__":
    main()
