"""Griffin-Lim: the equations hold, sounds have the magnitudes, and nothing depends on the batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.audio import FRONT_ENDS, FrontEnd, griffin_lim
from regard.audio.phases import _sound, _Transform
from regard.errors import ConfigError, ShapeError

SMALL = FrontEnd(sample_rate=8000, n_fft=256, win_length=200, hop_length=50, f_max=4000.0, num_mels=20)
KINDS = {
    "centred": SMALL,
    "zeros": replace(SMALL, padding="zeros"),
    "uncentred": replace(SMALL, centred=False, win_length=256),
    "odd": replace(SMALL, n_fft=250, hop_length=47, win_length=170),
}


def chirp(size, dtype=torch.float64):
    t = torch.arange(size, dtype=dtype)
    return sum(0.2 / n * torch.sin(0.03 * n * t + 4e-6 * n * t * t) for n in range(1, 8))


def error(front_end, sound, magnitudes):
    """In dB, of the magnitudes of a sound."""
    found = front_end.magnitudes(sound)[: len(magnitudes)]
    return float(20 * torch.log10((found - magnitudes[: len(found)]).norm() / magnitudes.norm()))


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_near_float64(kind):
    magnitudes = KINDS[kind].magnitudes(chirp(4000))[:30]
    exact = griffin_lim(magnitudes, KINDS[kind], iterations=3)
    assert exact.shape == (KINDS[kind].num_samples(30),)
    found = griffin_lim(magnitudes.float(), KINDS[kind], iterations=3)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-4)


def test_an_iteration_is_the_transform_of_the_inverse_transform():
    """By torch's own transforms of a sound."""
    front_end = replace(SMALL, padding="zeros", win_length=256)
    magnitudes, window = front_end.magnitudes(chirp(4000))[:20], front_end.window.double()
    phases = 6 * torch.rand(magnitudes.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def inverse(spectrum):
        return torch.istft(spectrum.T, 256, 50, window=window)

    def project(spectrum):
        return torch.stft(inverse(spectrum), 256, 50, window=window, pad_mode="constant", return_complex=True).T

    t = torch.polar(magnitudes, phases)
    last = torch.zeros_like(t)
    for _ in range(4):
        c = project(t / t.abs().clamp(min=1e-300) * magnitudes)
        t, last = c + 0.7 * (c - last), c
    expected = inverse(torch.polar(magnitudes, t.angle()))
    found = _sound(magnitudes, phases, _Transform(front_end, window, len(magnitudes)), 4, 0.7)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["regard", "nvidia", "hifi-gan", "keithito", "rayhane", "bshall"])
def test_sound_from_magnitudes_has_them(name):
    front_end = replace(FRONT_ENDS[name], peak=None)
    magnitudes = front_end.magnitudes(chirp(6000, torch.float32))
    sound = griffin_lim(magnitudes, front_end)
    assert sound.shape == (front_end.num_samples(len(magnitudes)),)
    assert error(front_end, sound, magnitudes) < -15


def test_momentum_and_iterations_help():
    magnitudes = SMALL.magnitudes(chirp(4000, torch.float32))
    errors = [
        error(SMALL, griffin_lim(magnitudes, SMALL, iterations=iterations, momentum=momentum), magnitudes)
        for iterations, momentum in ((0, 0.99), (10, 0.0), (30, 0.0), (30, 0.99))
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > errors[-1] + 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_does_not_depend_on_the_batch(kind):
    front_end = replace(KINDS[kind], pre_emphasis=0.9)
    magnitudes = front_end.magnitudes(torch.stack([chirp(3000, torch.float32), chirp(3000, torch.float32).flip(0)]))
    lengths = torch.tensor([[len(magnitudes[0])], [9]])
    batch = griffin_lim(magnitudes[:, None], front_end, lengths=lengths)
    assert batch.shape == (2, 1, front_end.num_samples(magnitudes.shape[1]))
    for row, length in enumerate(lengths.flatten().tolist()):
        alone = griffin_lim(magnitudes[row, :length], front_end)
        torch.testing.assert_close(batch[row, 0, : len(alone)], alone, rtol=0, atol=1e-6)
        assert not batch[row, 0, len(alone) :].any()
    torch.testing.assert_close(griffin_lim(magnitudes, front_end)[0], batch[0, 0], rtol=0, atol=1e-6)


def test_a_seed_makes_the_same_sound_and_another_seed_another():
    magnitudes = SMALL.magnitudes(chirp(2000, torch.float32))
    first = griffin_lim(magnitudes, SMALL, seed=3)
    torch.manual_seed(1)
    assert torch.equal(griffin_lim(magnitudes, SMALL, seed=3), first)
    assert not torch.allclose(griffin_lim(magnitudes, SMALL, seed=4), first, atol=1e-3)


def test_silence_stays_silent():
    assert not griffin_lim(torch.zeros(9, 129), SMALL).any()
    one = griffin_lim(torch.ones(1, 129), SMALL)
    assert one.shape == (0,)
    uncentred = griffin_lim(torch.ones(1, 129), KINDS["uncentred"])
    assert uncentred.shape == (50,)
    assert uncentred.isfinite().all()


def test_magnitudes_have_gradients():
    magnitudes = torch.ones(4, 129, requires_grad=True)
    griffin_lim(magnitudes, SMALL, iterations=2).sum().backward()
    assert magnitudes.grad.isfinite().all()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: griffin_lim(torch.ones(4, 128), SMALL), ShapeError, r"magnitudes must be \(…, T, 129\).*\n.*F=128"),
        (lambda: griffin_lim(torch.ones(4, 129), SMALL, iterations=-1), ConfigError, "iterations must be at least 0"),
        (lambda: griffin_lim(torch.ones(4, 129), SMALL, momentum=-1.0), ConfigError, "momentum must be at least 0"),
        (
            lambda: griffin_lim(torch.ones(2, 4, 129), SMALL, lengths=torch.tensor([5, 4])),
            ShapeError,
            r"\(B,\) numbers of frames from 1 to T.*\n.*\(B=2, T=4, F=129\)",
        ),
        (
            lambda: griffin_lim(torch.ones(2, 4, 129), SMALL, lengths=torch.tensor([4])),
            ShapeError,
            "numbers of frames from 1 to T",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
