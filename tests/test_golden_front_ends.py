"""Parity of spectrograms with those of other programs, to 1e-5."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from golden.archive import load, mechanisms
from regard.audio import FRONT_ENDS

TOLERANCE = {torch.float64: 1e-5, torch.float32: 2e-5}
EVERY = 20
"""Of the frames of linear spectrograms, every so many are kept."""
ORIGINALS = {
    "bshall": "front_ends/bshall",
    "coqui": "front_ends/coqui",
    "coqui-ln": "front_ends/coqui-ln",
    "espnet": "front_ends/espnet",
    "hifi-gan": "front_ends/hifi-gan",
    "keithito": "front_ends/keithito",
    "nvidia": "front_ends/nvidia",
    "rayhane": "front_ends/rayhane",
    "regard": "front_ends/regard",
    "speechbrain": "front_ends/speechbrain",
}


def test_every_front_end_is_compared():
    assert set(ORIGINALS) == set(mechanisms("front_ends"))
    assert {front_end for name, front_end in FRONT_ENDS.items() if name not in ORIGINALS} <= {FRONT_ENDS["hifi-gan"]}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", ORIGINALS)
def test_spectrograms_are_those_of_the_original(name, dtype):
    golden, front_end = load("front_ends", name, dtype), FRONT_ENDS[name]
    samples = golden.inputs["samples"].to(dtype) / 32768
    expected = golden.outputs["mel"]
    # float32 is as far from the original's float64 as the original's own float32 may be
    torch.testing.assert_close(front_end.mel(samples), expected, rtol=1e-5, atol=TOLERANCE[dtype])
    assert front_end.num_frames(len(samples)) == len(expected)
    if "linear" in golden.outputs:
        linear = front_end.linear(samples)[::EVERY]
        torch.testing.assert_close(linear, golden.outputs["linear"], rtol=1e-5, atol=TOLERANCE[dtype])


def transform(samples, n_fft, window, hop, pad):
    """Magnitudes of a sound by the sums that define them."""
    left = (n_fft - window) // 2
    hann = np.pad(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window), (left, n_fft - window - left))
    sound = np.pad(samples, n_fft // 2, mode=pad)
    frames = np.stack([sound[at : at + n_fft] * hann for at in range(0, len(sound) - n_fft + 1, hop)])
    angles = 2 * np.pi * np.outer(np.arange(n_fft), np.arange(n_fft // 2 + 1)) / n_fft
    return np.hypot(frames @ np.cos(angles), frames @ np.sin(angles))


def slaney(rate, n_fft, low, high, count=80):
    """Triangles drawn by interpolation, of unit height."""

    def hertz(mel):
        return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)

    def mel(hertz):
        return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * np.log(hertz / 1000) / np.log(6.4)

    corners = [hertz(m) for m in np.linspace(mel(low), mel(high), count + 2)]
    bins = np.arange(n_fft // 2 + 1) * rate / n_fft
    triangles = np.array([np.interp(bins, corners[i : i + 3], [0, 1, 0]) for i in range(count)])
    return triangles, np.array(corners)


def area(triangles, corners):
    return triangles * (2 / (corners[2:] - corners[:-2]))[:, None]


def emphasised(samples):
    return np.concatenate([samples[:1], samples[1:] - 0.97 * samples[:-1]])


def keithito(samples):
    magnitudes = transform(emphasised(samples), 2048, 1000, 250, "reflect")
    level = 20 * np.log10(np.maximum(1e-5, magnitudes @ area(*slaney(20000, 2048, 0, 10000)).T)) - 20
    return np.clip((level + 100) / 100, 0, 1)


def rayhane(samples):
    sound = emphasised(samples)
    energies = transform(0.999 * sound / np.abs(sound).max(), 2048, 1100, 275, "constant") ** 2
    level = 20 * np.log10(np.maximum(1e-5, energies @ area(*slaney(22050, 2048, 55, 7600)).T)) - 20
    return np.clip(8 * (level + 100) / 100 - 4, -4, 4)


def bshall(samples):
    sound = emphasised(samples)
    sound[0] = 3 * samples[0] - samples[1]
    triangles, _ = slaney(16000, 2048, 50, 8000)
    triangles = triangles / triangles.sum(1, keepdims=True)
    level = 20 * np.log10(np.maximum(1e-5, transform(sound, 2048, 800, 200, "reflect") @ triangles.T)) - 20
    return np.maximum(level, -80) / 80


@pytest.mark.parametrize("formulas", [keithito, rayhane, bshall], ids=lambda formulas: formulas.__name__)
def test_spectrograms_are_their_formulas(formulas):
    samples = np.random.default_rng(1).standard_normal(3000) * 0.1 + 0.2
    found = FRONT_ENDS[formulas.__name__].mel(torch.from_numpy(samples))
    np.testing.assert_allclose(found.numpy(), formulas(samples), rtol=0, atol=1e-9)
