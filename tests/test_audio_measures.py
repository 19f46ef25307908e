"""Distortion beside scipy and plain loops; the pitch of sounds whose pitch is known."""

import math

import numpy as np
import pytest
import torch

from regard.audio import find_pitch, mel_cepstral_distortion, mel_cepstrum
from regard.errors import ConfigError, RegardError, ShapeError
from test_ops_warping import warped_plainly

RATE, HOP = 16000, 200


def mels(*lengths, bands=24, seed=0):
    """Padded spectrograms that change slowly, with NaN as padding."""
    draw = torch.Generator().manual_seed(seed)
    batch = torch.full((len(lengths), max(lengths), bands), math.nan)
    for row, length in enumerate(lengths):
        batch[row, :length] = torch.randn(length, bands, generator=draw).cumsum(0) / 3
    return batch, torch.tensor(lengths)


@pytest.mark.parametrize("bands", [14, 80])
def test_the_cepstrum_is_scipys_orthonormal_cosine_transform(bands):
    fft = pytest.importorskip("scipy.fft")
    log_mel = torch.randn(2, 5, bands, dtype=torch.float64)
    expected = fft.dct(log_mel.numpy(), type=2, norm="ortho")[..., 1:14]
    np.testing.assert_allclose(mel_cepstrum(log_mel), expected, atol=1e-12)
    np.testing.assert_allclose(mel_cepstrum(log_mel, 4), expected[..., :4], atol=1e-12)
    with pytest.raises(RegardError, match=f"1 to M-1={bands - 1}; got {bands}"):
        mel_cepstrum(log_mel, bands)


def test_distortion_is_that_of_plain_loops():
    (mel, lengths), (reference, reference_lengths) = mels(9, 4, 1), mels(6, 11, 2, seed=1)
    found = mel_cepstral_distortion(mel, reference, lengths, reference_lengths)
    assert found.decibels.dtype == torch.float64
    for row, (t, u) in enumerate(zip(lengths.tolist(), reference_lengths.tolist(), strict=True)):
        cepstra = []
        for one in (mel[row, :t].double().tolist(), reference[row, :u].double().tolist()):
            bands = len(one[0])
            cepstra.append(
                [
                    [
                        math.sqrt(2 / bands)
                        * sum(x * math.cos(math.pi * k * (m + 0.5) / bands) for m, x in enumerate(frame))
                        for k in range(1, 14)
                    ]
                    for frame in one
                ]
            )
        costs = [[math.dist(a, b) for b in cepstra[1]] for a in cepstra[0]]
        path = warped_plainly(costs)
        mean = sum(costs[i][j] for i, j in path) / len(path)
        assert float(found.decibels[row]) == pytest.approx(10 * math.sqrt(2) / math.log(10) * mean)
        assert found.path[row, : found.path_length[row]].tolist() == path
        alone = mel_cepstral_distortion(mel[row : row + 1, :t], reference[row : row + 1, :u])
        assert float(alone.decibels) == pytest.approx(float(found.decibels[row]), rel=1e-12)


def test_distortion_knows_neither_loudness_nor_speed():
    mel = mels(20, bands=80)[0].double()
    louder = mel.repeat_interleave(3, dim=1) + 2.5
    assert float(mel_cepstral_distortion(louder, mel).decibels) == pytest.approx(0, abs=1e-6)
    # a band that is 1 louder: the distance of the transform of a unit vector, without what c_0 and the higher ones take
    other = mel.clone()
    other[..., 7] += 1
    unit = torch.zeros(1, 80, dtype=torch.float64)
    unit[0, 7] = 1
    expected = 10 * math.sqrt(2) / math.log(10) * float(mel_cepstrum(unit).norm())
    assert float(mel_cepstral_distortion(other, mel).decibels) <= expected + 1e-4
    fewer = mel_cepstral_distortion(other, mel, num_coefficients=2).decibels
    assert float(fewer) < float(mel_cepstral_distortion(other, mel).decibels)


def test_what_has_no_distortion_is_refused():
    mel, _ = mels(5)
    silent = torch.full_like(mel, -math.inf)
    with pytest.raises(RegardError, match="reference must be finite"):
        mel_cepstral_distortion(mel, silent)
    with pytest.raises(RegardError, match="log_mel must be finite"):
        mel_cepstral_distortion(silent, mel)
    with pytest.raises(ShapeError, match="as many bands"):
        mel_cepstral_distortion(mel, mel[..., :20])
    with pytest.raises(ShapeError, match="lengths must lie between 1"):
        mel_cepstral_distortion(mel, mel, torch.tensor([0]))


def harmonics(pitch, seconds=0.5, amplitudes=(1.0, 0.7, 0.5, 0.3, 0.2), rate=RATE):
    """A sum of sines over a pitch, (N,) Hz or one number."""
    count = int(seconds * rate)
    phase = 2 * math.pi * torch.cumsum(torch.as_tensor(pitch, dtype=torch.float64).expand(count), 0) / rate
    return sum(
        a * torch.sin(k * phase + k)
        for k, a in enumerate(amplitudes, start=1)
        if k * float(torch.as_tensor(pitch).max()) < rate / 2
    )


def cents(found, expected):
    return 1200 * torch.log2(found / expected)


@pytest.mark.parametrize("pitch", [62.0, 75.0, 100.0, 133.3, 180.0, 220.0, 297.0, 395.0])
@pytest.mark.parametrize(
    "amplitudes", [(1.0,), (1.0, 0.7, 0.5, 0.3), (0.0, 1.0, 1.0, 1.0, 0.5), (0.3, 1.0, 0.2)], ids=str
)
def test_the_pitch_of_a_tone_is_found(pitch, amplitudes):
    found = find_pitch(harmonics(pitch, amplitudes=amplitudes)[None], sample_rate=RATE, hop_length=HOP)
    inner = found.frequency[0, 4:-4]
    assert found.frequency.shape == (1, 1 + 8000 // HOP)
    assert (inner > 0).all()
    assert float(cents(inner, pitch).abs().max()) < 8
    assert (found.strength[0, 4:-4] > 0.9).all()


@pytest.mark.parametrize(("rate", "hop"), [(8000, 100), (22050, 256), (24000, 300)])
def test_sample_rates_and_hops_change_frames_and_not_pitch(rate, hop):
    found = find_pitch(harmonics(150, rate=rate)[None].float(), sample_rate=rate, hop_length=hop)
    assert found.frequency.shape[1] == 1 + rate // 2 // hop
    assert float(cents(found.frequency[0, 5:-5], 150).abs().max()) < 8


def test_a_gliding_pitch_is_followed_and_frames_are_centred():
    glide = torch.linspace(100, 220, RATE, dtype=torch.float64)
    found = find_pitch(harmonics(glide, seconds=1.0)[None], sample_rate=RATE, hop_length=HOP).frequency[0]
    centres = (torch.arange(len(found)) * HOP).clamp(max=RATE - 1)
    apart = cents(found, glide[centres])[4:-4]
    assert float(apart.abs().max()) < 20
    assert abs(float(apart.mean())) < 3


def test_noise_and_silence_are_not_voiced_and_a_tone_between_them_is():
    draw = torch.Generator().manual_seed(0)
    noise = 0.3 * torch.randn(RATE // 2, generator=draw, dtype=torch.float64)
    silence = 1e-4 * torch.randn(RATE // 2, generator=draw, dtype=torch.float64)
    sound = torch.cat([noise, harmonics(140), silence, torch.zeros(RATE // 2)])
    found = find_pitch(sound[None], sample_rate=RATE, hop_length=HOP)
    voiced = found.is_voiced[0]
    part = RATE // 2 // HOP
    assert float(voiced[: part - 2].double().mean()) < 0.1
    assert voiced[part + 3 : 2 * part - 2].all()
    assert not voiced[2 * part + 3 :].any()
    assert (found.strength[0, 3 * part + 3 :] == 0).all()


def test_thresholds_and_costs_change_what_is_found():
    draw = torch.Generator().manual_seed(1)
    tone = harmonics(120)
    noisy = (tone + 0.8 * tone.std() * torch.randn(len(tone), generator=draw, dtype=torch.float64))[None]

    def voiced(**options):
        return int(find_pitch(noisy, sample_rate=RATE, hop_length=HOP, **options).is_voiced.sum())

    assert voiced(voicing_threshold=0.95) < voiced() <= voiced(voicing_threshold=0.2)
    steps = torch.cat([0.05 * tone, tone])[None]
    quiet = [
        int(find_pitch(steps, sample_rate=RATE, hop_length=HOP, silence_threshold=limit).is_voiced.sum())
        for limit in (0.03, 0.4)
    ]
    assert quiet[1] < 0.7 * quiet[0]
    # between the two pitches of a sound that is nearly periodic at both, the octave cost decides
    ambiguous = harmonics(100.0, amplitudes=(0.12, 1.0, 0.05, 0.5))[None]
    low, high = (
        float(find_pitch(ambiguous, sample_rate=RATE, hop_length=HOP, octave_cost=cost).frequency[0, 20])
        for cost in (0.0, 0.2)
    )
    assert (round(low), round(high)) == (100, 200)
    # one frame in between that seems an octave higher is not believed, unless changes cost nothing
    flip = harmonics(100.0, amplitudes=(1.0, 0.8))
    flip[3800:4200] = harmonics(200.0, amplitudes=(1.0,))[3800:4200]
    jumps = [
        int((find_pitch(flip[None], sample_rate=RATE, hop_length=HOP, **options).frequency[0, 4:-4] > 150).sum())
        for options in ({}, {"octave_jump_cost": 0.0, "octave_cost": 0.2})
    ]
    assert jumps[0] < jumps[1]
    holes = [voiced(voicing_threshold=0.62, voicing_cost=cost) for cost in (0.0, 5.0)]
    assert holes[0] != holes[1]


def test_the_pitch_of_a_sentence_is_the_same_in_any_batch():
    lengths = torch.tensor([8000, 5003, 199, 0])
    batch = torch.full((4, 8000), 0.7, dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        batch[row, :length] = harmonics(110 + 50 * row)[:length]
    found = find_pitch(batch, lengths, sample_rate=RATE, hop_length=HOP)
    for row, length in enumerate(lengths.tolist()):
        frames = 1 + length // HOP
        alone = find_pitch(batch[row : row + 1, :length], sample_rate=RATE, hop_length=HOP)
        for name in ("frequency", "strength"):
            torch.testing.assert_close(
                getattr(found, name)[row, :frames], getattr(alone, name)[0], rtol=1e-9, atol=1e-9
            )
            assert (getattr(found, name)[row, frames:] == 0).all()


def test_loudness_and_a_constant_change_nothing():
    tone = harmonics(170)[None]
    plain, loud = (find_pitch(x, sample_rate=RATE, hop_length=HOP) for x in (tone, 1000 * tone + 3))
    torch.testing.assert_close(plain.frequency[:, 4:-4], loud.frequency[:, 4:-4], rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"f_min": 0.0}, ConfigError, "f_min=0"),
        ({"f_min": 400.0}, ConfigError, "f_min=400, f_max=400"),
        ({"f_max": 4001.0}, ConfigError, "a quarter of the sample rate"),
        ({"hop_length": 0}, ConfigError, "hop_length=0"),
        ({"lengths": torch.tensor([101])}, ShapeError, "between 0 and N=100"),
        ({"lengths": torch.tensor([1, 1])}, ShapeError, r"\(1,\) integers"),
    ],
)
def test_settings_of_pitch_are_checked(options, kind, said):
    with pytest.raises(kind, match=said):
        find_pitch(torch.zeros(1, 100), **{"sample_rate": RATE, "hop_length": HOP} | options)
    with pytest.raises(ShapeError, match="samples must be"):
        find_pitch(torch.zeros(100), sample_rate=RATE, hop_length=HOP)
