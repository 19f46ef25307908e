"""Spectrograms: how many frames, of what time, the same in any batch, and back to magnitudes."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from regard.audio import (
    FRONT_ENDS,
    Compression,
    FrontEnd,
    Standardisation,
    de_emphasis,
    decibels,
    least_squares,
    logarithm,
    mel_filters,
    pre_emphasis,
    pseudo_inverse,
)
from regard.errors import ConfigError, DataError, ShapeError

SMALL = FrontEnd(sample_rate=8000, n_fft=256, win_length=200, hop_length=50, f_max=4000.0, num_mels=20)
NAMES = pytest.mark.parametrize("name", sorted(FRONT_ENDS))


def noise(*shape, seed=0, dtype=torch.float64):
    return 0.1 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@NAMES
def test_a_sound_has_as_many_frames_as_it_says(name):
    front_end = FRONT_ENDS[name]
    hop = front_end.hop_length
    for samples in (front_end.least_samples, hop, 2 * hop - 1, 2 * hop, 2 * hop + 1, 5 * hop + 7):
        count = 1 + samples // hop if front_end.centred else samples // hop
        assert front_end.num_frames(samples) == count
        assert front_end.mel(noise(samples)).shape == (count, 80)
    assert front_end.num_frames(torch.tensor([hop, 3 * hop])).tolist() == [
        front_end.num_frames(hop),
        front_end.num_frames(3 * hop),
    ]
    assert front_end.num_samples(7) == (6 * hop if front_end.centred else 7 * hop)
    if front_end.least_samples > 1:
        with pytest.raises(DataError, match=f"{hop - 1} samples is too short for a frame, which needs {hop}"):
            front_end.mel(noise(hop - 1))


@NAMES
def test_a_click_is_loudest_in_the_frame_of_its_time(name):
    front_end = replace(FRONT_ENDS[name], pre_emphasis=0.0)
    clicked = torch.zeros(12 * front_end.hop_length)
    at = 5 * front_end.hop_length + (0 if front_end.centred else front_end.hop_length // 2)
    clicked[at] = 1
    frame = int(front_end.magnitudes(clicked).sum(1).argmax())
    assert frame == 5
    assert front_end.frame_time(frame) == at / front_end.sample_rate
    assert front_end.frame_time(torch.tensor([5.0])).tolist() == pytest.approx([at / front_end.sample_rate])


@NAMES
def test_a_sound_in_a_batch_is_as_alone_and_silence_follows(name):
    front_end = FRONT_ENDS[name]
    lengths = torch.tensor([5 * front_end.hop_length + 3, front_end.least_samples, 700, 3000])
    batch = noise(2, 2, 3000)
    spectrograms = front_end.mel(batch, lengths.reshape(2, 2)).flatten(0, 1)
    linear = front_end.linear(batch, lengths.reshape(2, 2)).flatten(0, 1)
    for row, (samples, length) in enumerate(zip(batch.flatten(0, 1), lengths.tolist(), strict=True)):
        alone = front_end.mel(samples[:length])
        torch.testing.assert_close(spectrograms[row, : len(alone)], alone, rtol=0, atol=1e-9)
        beyond = spectrograms[row, len(alone) :]
        torch.testing.assert_close(beyond, front_end.silence.to(beyond).expand_as(beyond), rtol=0, atol=1e-5)
        torch.testing.assert_close(linear[row, : len(alone)], front_end.linear(samples[:length]), rtol=0, atol=1e-9)


@NAMES
def test_silence_is_finite_and_so_are_its_gradients(name):
    front_end = FRONT_ENDS[name]
    samples = torch.zeros(4000, requires_grad=True)
    spectrogram = front_end.mel(samples)
    torch.testing.assert_close(spectrogram, front_end.silence.expand_as(spectrogram))
    (spectrogram.sum() + front_end.linear(samples).sum()).backward()
    assert samples.grad.isfinite().all()
    assert spectrogram.isfinite().all()
    assert front_end.linear(samples).isfinite().all()


@pytest.mark.parametrize("size", [1, 2, 3, 60, 127, 128, 129])
def test_a_sound_shorter_than_a_transform_is_reflected_again_and_again(size):
    samples = noise(size)
    padded = np.pad(samples.numpy(), 128, mode="reflect") if size > 1 else np.full(257, samples.numpy())
    window = SMALL.window.numpy()
    frames = [padded[at : at + 256] * window for at in range(0, len(padded) - 255, 50)]
    expected = np.abs(np.fft.rfft(np.stack(frames)))
    np.testing.assert_allclose(SMALL.magnitudes(samples).numpy(), expected, rtol=0, atol=1e-12)


def test_a_recording_of_8_khz_has_no_frequencies_for_a_front_end_of_16_khz():
    with pytest.raises(ConfigError, match=r"f_max 7600 Hz is above half of sample_rate, 4000 Hz") as caught:
        FrontEnd(sample_rate=8000)
    assert caught.value.path == ("f_max",)
    assert FrontEnd(sample_rate=8000, f_max=None).highest == 4000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hop_length": 0}, "hop_length must be above 0; got 0"),
        ({"n_fft": 1023}, "n_fft must be even; got 1023"),
        ({"win_length": 2000}, "win_length 2000 must be at most n_fft, 1024"),
        ({"hop_length": 900}, "hop_length 900 must be at most win_length, 800"),
        ({"f_min": 7600}, "f_min 7600 Hz must be from 0 to f_max, 7600 Hz"),
        ({"pre_emphasis": 1.0}, "pre_emphasis must be at least 0 and below 1; got 1"),
        ({"epsilon": -1.0}, "epsilon must be at least 0; got -1"),
        ({"magnitude_floor": -1.0}, "magnitude_floor must be at least 0; got -1"),
        ({"peak": 2.0}, "peak must be above 0 and at most 1; got 2"),
        ({"num_mels": 800}, r"Mel filter \d+ of 800, from .* Hz, contains no frequency"),
    ],
)
def test_parameters_that_make_no_sense_are_named(change, message):
    with pytest.raises(ConfigError, match=message) as caught:
        FrontEnd(**change)
    assert caught.value.path[0] in change


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SMALL.mel(torch.zeros(300, dtype=torch.long)), r"Samples are real numbers.*\n.*\(N=300\) int64"),
        (lambda: SMALL.mel(noise(2, 300), torch.tensor([300])), r"lengths must be .*the number.*\n.*\(B=2, N=300\)"),
        (lambda: SMALL.mel(noise(2, 300), torch.tensor([300, 301])), "The length 301 is more than the samples"),
        (lambda: SMALL.mel_to_magnitudes(noise(5, 21)), r"mel must be \(…, T, 20\), num_mels numbers.*\n.*F=21"),
        (lambda: SMALL.linear_to_magnitudes(noise(3, 5, 20)), r"linear must be \(…, T, 129\).*\n.*\(B=3, T=5, F=20\)"),
    ],
)
def test_tensors_that_do_not_fit_are_shown(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


def test_a_sound_without_samples_is_named():
    with pytest.raises(DataError, match=r"A sound of 0 samples \(sound 2 of 3\) is too short"):
        SMALL.mel(noise(3, 300), torch.tensor([300, 0, 4]))


OTHER = {
    "sample_rate": 8500,
    "n_fft": 512,
    "win_length": 150,
    "hop_length": 40,
    "f_min": 100.0,
    "f_max": 3000.0,
    "num_mels": 19,
    "pre_emphasis": 0.5,
    "centred": False,
    "padding": "zeros",
    "power": 2.0,
    "compression": logarithm(1e-5, base=10),
    "filter_norm": "sum",
    "epsilon": 1e-3,
    "magnitude_floor": 0.5,
    "peak": 0.9,
    "start": "extrapolation",
}


def test_every_parameter_changes_spectrograms():
    assert set(OTHER) == {field.name for field in fields(FrontEnd)}
    base = replace(SMALL, pre_emphasis=0.3)
    samples = noise(600)
    for name, value in OTHER.items():
        one, two = base.mel(samples), replace(base, **{name: value}).mel(samples)
        assert one.shape != two.shape or float((one - two).abs().max()) > 1e-4, name


def test_filters_have_unit_area_or_unit_sum_and_overlap_with_their_neighbours_only():
    filters = mel_filters(16000, 4096, 40, 0.0, 8000.0)
    np.testing.assert_allclose(filters.sum(1).numpy() * 16000 / 4096, 1, atol=0.02)
    assert (filters[:-2] * filters[2:] == 0).all()
    assert (filters[:-1] * filters[1:]).sum(1).min() > 0
    torch.testing.assert_close(mel_filters(16000, 4096, 40, 0.0, 8000.0, "sum").sum(1), torch.ones(40).double())


@pytest.mark.parametrize(
    "kind", [logarithm(), logarithm(1e-10, base=10), decibels(), decibels(bound=4, symmetric=True)]
)
def test_compression_is_undone_down_to_its_floor(kind):
    energies = torch.tensor([0.0, 1e-4, 0.01, 1.0, 9.0], dtype=torch.float64)
    back = kind.inverse(kind(energies))
    torch.testing.assert_close(back[1:], energies[1:])
    assert 0 < back[0] < 1.001e-4
    cut = kind(torch.tensor([1e9])).item()
    assert cut == pytest.approx(kind.maximum) if kind.maximum is not None else math.isfinite(cut)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"floor": 0.0}, "floor must be a number above 0; got 0.0"),
        ({"scale": math.inf}, "scale must be a number above 0; got inf"),
        ({"minimum": 1.0, "maximum": 1.0}, "minimum 1 must be below maximum 1"),
    ],
)
def test_compressions_that_make_no_sense_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        Compression(**options)


@pytest.mark.parametrize("size", [1, 2, 700])
@pytest.mark.parametrize("coefficient", [0.5, 0.97])
def test_de_emphasis_is_the_recurrence_and_undoes_pre_emphasis(size, coefficient):
    samples = noise(2, size)
    expected, last = torch.zeros(2, size, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    for t in range(size):
        last = samples[:, t] + coefficient * last
        expected[:, t] = last
    torch.testing.assert_close(de_emphasis(samples, coefficient), expected)
    torch.testing.assert_close(de_emphasis(pre_emphasis(samples, coefficient), coefficient), samples)


def test_pre_emphasis_begins_as_it_is_told():
    samples = torch.tensor([1.0, 2.0, 4.0])
    assert pre_emphasis(samples, 0.5).tolist() == [1, 1.5, 3]
    assert pre_emphasis(samples, 0.5, "extrapolation").tolist() == [1, 1.5, 3]
    assert pre_emphasis(samples.flip(0), 0.5, "extrapolation").tolist() == [10, 0, 0]
    assert pre_emphasis(samples[:1], 0.5, "extrapolation").tolist() == [1]


@pytest.mark.parametrize("name", ["regard", "rayhane", "nvidia"])
def test_least_squares_has_the_energies_and_the_pseudo_inverse_misses_them(name):
    front_end = FRONT_ENDS[name]
    t = torch.arange(6000, dtype=torch.float64)
    sound = sum(0.2 / n * torch.sin(0.05 * n * t + 1e-6 * n * t * t) for n in range(1, 20)) + noise(6000) / 100
    mel = front_end.mel(sound)
    magnitudes = front_end.mel_to_magnitudes(mel)
    assert magnitudes.min() >= 0
    right = front_end.compression.inverse(mel)
    errors = []
    for found in (magnitudes, front_end.mel_to_magnitudes(mel, "pseudo_inverse")):
        energies = front_end.compression.inverse(front_end.magnitudes_to_mel(found))
        errors.append(float((energies - right).norm() / right.norm()))
    assert errors[0] < 0.01 < 2 * errors[0] + 0.01 < errors[1]


def test_least_squares_is_as_near_as_another_solver_comes():
    optimize = pytest.importorskip("scipy.optimize")
    filters = SMALL.filters
    # energies that no spectrum has (between two loud filters, a silent one) beside some that one has
    energies = torch.rand(6, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    energies[0, ::2] = 0
    energies[1] = 0
    energies[2] = filters @ torch.rand(129, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = least_squares(energies, filters)
    assert found.min() >= 0
    for mine, e in zip(found, energies, strict=True):
        _, best = optimize.nnls(filters.numpy(), e.numpy())
        assert float((filters @ mine - e).norm()) <= best * 1.001 + 1e-6
    assert found[1].max() < 1e-12
    least = pseudo_inverse(energies, filters)
    assert (least >= 1e-10).all()
    assert float((filters @ least[0] - energies[0]).norm()) > 1.1 * float((filters @ found[0] - energies[0]).norm())


def test_the_inverse_of_a_frame_does_not_depend_on_the_others():
    mel = SMALL.mel(noise(3, 800))
    together = SMALL.mel_to_magnitudes(mel)
    torch.testing.assert_close(together[1], SMALL.mel_to_magnitudes(mel[1]), rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(together[1, 3:4], SMALL.mel_to_magnitudes(mel[1, 3:4]), rtol=1e-7, atol=1e-7)
    assert SMALL.mel_to_magnitudes(mel.float()).dtype == torch.float32


@pytest.mark.parametrize("name", ["regard", "rayhane", "keithito"])
def test_linear_spectrograms_are_undone(name):
    front_end = replace(FRONT_ENDS[name], peak=None)
    sound = noise(4000) / 10
    magnitudes = front_end.magnitudes(sound)
    found = front_end.linear_to_magnitudes(front_end.linear(sound))
    # decibels are cut 100 dB below the reference
    torch.testing.assert_close(found, magnitudes, rtol=1e-6, atol=0.011)
    torch.testing.assert_close(found[magnitudes > 0.011], magnitudes[magnitudes > 0.011], rtol=1e-6, atol=0)


def test_standardisation_is_that_of_all_frames_together():
    parts = [noise(size, 5, seed=size) * 3 + 2 for size in (4, 1, 0, 9)]
    parts[0][:, 3] = parts[1][:, 3] = parts[3][:, 3] = 7
    scale = Standardisation.fit(iter(parts))
    whole = torch.cat(parts)
    torch.testing.assert_close(scale.mean, whole.mean(0))
    expected = whole.std(0, correction=0)
    expected[3] = 1
    torch.testing.assert_close(scale.deviation, expected)
    torch.testing.assert_close(scale.inverse(scale(whole.float())), whole.float())
    assert scale(whole.float()).dtype == torch.float32
    with pytest.raises(DataError, match="at least one frame"):
        Standardisation.fit([])
    with pytest.raises(ShapeError, match=r"\(T, F\) with F as in the first, 5"):
        Standardisation.fit([parts[0], noise(3, 4)])
