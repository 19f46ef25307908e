"""Files of sound, other sample rates, silence, and sound that is made."""

from __future__ import annotations

import math
import struct
import sys

import numpy as np
import pytest
import torch

from regard.audio import (
    FRONT_ENDS,
    find_endpoint,
    read_wave,
    resample,
    sounding,
    synthetic_speech,
    trim_silence,
    write_wave,
)
from regard.errors import ConfigError, DataError, RegardError, ShapeError, UnsupportedError

TONE = 0.5 * torch.sin(torch.arange(1000) * 0.05)


def wav(body, *, kind=1, channels=1, rate=16000, bits=16, size=None, extensible=False, before=b""):
    form = struct.pack("<HHIIHH", 0xFFFE if extensible else kind, channels, rate, 0, channels * bits // 8, bits)
    if extensible:
        form += struct.pack("<HHI", 22, bits, 0) + struct.pack("<H", kind) + b"\x00" * 14
    chunks = b"WAVEfmt " + struct.pack("<I", len(form)) + form + before
    chunks += b"data" + struct.pack("<I", len(body) if size is None else size) + body
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def integers(bits):
    numbers = torch.round(TONE.double() * 2 ** (bits - 1)).long().numpy()
    if bits == 8:
        return (numbers + 128).astype(np.uint8).tobytes()
    if bits == 24:
        return b"".join(int(n).to_bytes(3, "little", signed=True) for n in numbers)
    return numbers.astype(f"<i{bits // 8}").tobytes()


def floats(bits):
    return TONE.numpy().astype(f"<f{bits // 8}").tobytes()


@pytest.mark.parametrize(
    ("content", "tolerance"),
    [
        (wav(integers(8), bits=8), 2**-8),
        (wav(integers(16)), 2**-16),
        (wav(integers(24), bits=24), 1e-7),
        (wav(integers(32), bits=32), 1e-7),
        (wav(floats(32), kind=3, bits=32), 0),
        (wav(floats(64), kind=3, bits=64), 0),
        (wav(integers(16), extensible=True), 2**-16),
        (wav(integers(16), size=0xFFFFFFFF), 2**-16),
        (wav(integers(16), size=0), 2**-16),
        (wav(integers(16), before=b"LIST\x03\x00\x00\x00abc\x00"), 2**-16),
    ],
    ids=["8", "16", "24", "32", "f32", "f64", "extensible", "unknown size", "size 0", "another chunk"],
)
def test_wav_files_are_read_without_a_package(tmp_path, monkeypatch, content, tolerance):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    samples, rate = read_wave(path)
    assert (rate, samples.dtype, samples.shape) == (16000, torch.float32, (1000,))
    assert float((samples - TONE).abs().max()) <= tolerance


def test_stereo_becomes_one_channel_with_a_message(tmp_path):
    both = torch.stack([TONE, TONE * 0.5], 1)
    path = tmp_path / "stereo.wav"
    path.write_bytes(wav((both * 32768).round().numpy().astype("<i2").tobytes(), channels=2))
    with pytest.warns(UserWarning, match=r"stereo\.wav: 2 channels are averaged to one"):
        samples, _ = read_wave(path)
    torch.testing.assert_close(samples, both.mean(1), rtol=0, atol=1e-4)


def test_another_rate_is_resampled_with_a_message(tmp_path, recwarn):
    path = write_wave(tmp_path / "a.wav", TONE, 8000)
    messages = []
    samples, rate = read_wave(path, 16000, report=messages.append)
    assert messages == [f"{path}: resampled from 8,000 Hz to 16,000 Hz; it has nothing above 4,000 Hz."]
    assert (rate, samples.shape) == (16000, (2000,))
    torch.testing.assert_close(samples[200:-200:2], TONE[100:-100], rtol=0, atol=1e-3)
    messages.clear()
    read_wave(path, 4000, report=messages.append)
    assert messages == [f"{path}: resampled from 8,000 Hz to 4,000 Hz."]
    messages.clear()
    assert read_wave(path, 8000, report=messages.append)[1] == 8000
    assert not messages
    assert not recwarn.list


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "a.wav: the sound cannot be read: No such file or directory"),
        (b"", "a.wav: the file is empty"),
        (b"RIFF....AVI LIST", "a.wav: not a WAV file: it begins with b'RIFF....AVI '"),
        (wav(b""), "a.wav: the file has no samples"),
        (wav(integers(16), size=4000), r"a.wav: the WAV file is truncated: 2,000 of 4,000 bytes of samples"),
        (wav(integers(16))[:40], "a.wav: the WAV file has no `data` chunk"),
        (b"RIFF\x00\x00\x00\x00WAVEdata\x04\x00\x00\x00abcd", "a.wav: the WAV file has no `fmt ` chunk before"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt \x02\x00\x00\x00ab", "a.wav: the WAV file is truncated in its `fmt ` chunk"),
        (wav(integers(16), channels=0), "a.wav: the WAV file has no channels"),
        (wav(np.array([0, math.nan], "<f4").tobytes(), kind=3, bits=32), r"a.wav: sample 2 is \[nan\]"),
    ],
)
def test_a_file_that_is_no_sound_is_named(tmp_path, content, message):
    path = tmp_path / "a.wav"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_wave(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [wav(integers(8), kind=7, bits=8), b"fLaC\x00\x00\x00\x22"])
def test_other_formats_say_which_package_they_need(tmp_path, monkeypatch, content):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(UnsupportedError, match=r"the soundfile package: pip install 'regard\[audio\]'"):
        read_wave(path)
    with pytest.raises(UnsupportedError, match="Writing FLAC files needs the soundfile package"):
        write_wave(tmp_path / "b.flac", TONE, 16000)


def test_flac_and_compressed_wav_are_read_by_soundfile(tmp_path):
    soundfile = pytest.importorskip("soundfile", reason="the extra `audio` is not installed")
    path = write_wave(tmp_path / "a.flac", TONE, 16000)
    samples, rate = read_wave(path)
    assert rate == 16000
    torch.testing.assert_close(samples, TONE, rtol=0, atol=2**-15)
    soundfile.write(tmp_path / "law.wav", TONE.numpy(), 8000, subtype="ULAW")
    samples, rate = read_wave(tmp_path / "law.wav")
    assert (rate, len(samples)) == (8000, 1000)
    broken = tmp_path / "broken.flac"
    broken.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match=r"broken\.flac: "):
        read_wave(broken)
    (tmp_path / "text.flac").write_text("no sound")
    with pytest.raises(DataError, match=r"text\.flac: not a sound that can be read: Format not recognised"):
        read_wave(tmp_path / "text.flac")


def test_what_is_written_is_read_back(tmp_path):
    path = write_wave(tmp_path / "a.wav", TONE.double(), 22050)
    samples, rate = read_wave(path)
    assert rate == 22050
    torch.testing.assert_close(samples, TONE, rtol=0, atol=2**-16)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.wav"]


def test_a_sound_beyond_one_is_scaled_or_cut(tmp_path):
    loud = 3 * TONE
    scaled, _ = read_wave(write_wave(tmp_path / "a.wav", loud, 16000))
    torch.testing.assert_close(scaled, loud / loud.abs().max(), rtol=0, atol=1e-4)
    cut, _ = read_wave(write_wave(tmp_path / "a.wav", loud, 16000, loud="clip"))
    torch.testing.assert_close(cut, loud.clamp(-1, 1), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "samples", "kind", "message"),
    [
        ("a.mp3", TONE, DataError, r"sounds are written as \.wav or \.flac; got '\.mp3'"),
        ("a", TONE, DataError, "got 'no suffix'"),
        ("a.wav", TONE[None], ShapeError, r"one sound of real numbers, \(N,\)"),
        ("a.wav", TONE.long(), ShapeError, "int64"),
        ("a.wav", torch.tensor([0.0, math.inf]), DataError, "sample 2 is inf"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, name, samples, kind, message):
    with pytest.raises(kind, match=message):
        write_wave(tmp_path / name, samples, 16000)
    assert not list(tmp_path.iterdir())


def test_a_sound_whose_folder_is_a_file_is_refused(tmp_path):
    (tmp_path / "folder").write_text("mine")
    with pytest.raises(RegardError, match=r"folder.a\.wav: cannot be written"):
        write_wave(tmp_path / "folder" / "a.wav", TONE, 16000)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("folder", "mine")]


@pytest.mark.parametrize(("rate", "new_rate"), [(8000, 16000), (22050, 16000), (44100, 22050), (16000, 22050)])
def test_tones_are_resampled_and_what_the_new_rate_cannot_have_is_gone(rate, new_rate):
    size = rate // 5
    t, new_t = (
        torch.arange(count, dtype=torch.float64) / per_second
        for count, per_second in ((size, rate), (-(-size * new_rate // rate), new_rate))
    )
    inside = slice(new_rate // 20, -new_rate // 20)
    low = 0.94 * min(rate, new_rate) / 2
    for frequency in (100.0, 1234.5, low):
        found = resample(torch.sin(2 * math.pi * frequency * t), rate, new_rate)
        expected = torch.sin(2 * math.pi * frequency * new_t)
        assert found.shape == expected.shape
        assert float((found - expected)[inside].abs().max()) < 2e-4
    if new_rate < rate:
        high = 1.01 * new_rate / 2
        assert float(resample(torch.sin(2 * math.pi * high * t), rate, new_rate)[inside].abs().max()) < 1e-4


def test_resampling_takes_batches_and_keeps_types():
    batch = torch.randn(2, 3, 500, generator=torch.Generator().manual_seed(0))
    found = resample(batch, 16000, 12000)
    assert found.shape == (2, 3, 375)
    torch.testing.assert_close(found[1, 2], resample(batch[1, 2], 16000, 12000))
    assert resample(batch.double(), 16000, 12000).dtype == torch.float64
    assert resample(batch, 16000, 16000) is batch
    assert resample(batch[..., :1], 16000, 8000).shape == (2, 3, 1)
    with pytest.raises(ConfigError, match="Sample rates must be above 0; got 0 and 8000"):
        resample(batch, 0, 8000)


def test_silence_at_both_ends_is_trimmed_by_level():
    noise = torch.randn(16000, generator=torch.Generator().manual_seed(0))
    sound = torch.cat([noise[:5000] * 1e-4, noise[5000:9000] * 0.1, noise[9000:] * 1e-4])
    start, stop = sounding(sound)
    assert 5000 - 512 <= start <= 5000
    assert 9000 <= stop <= 9000 + 768
    assert torch.equal(trim_silence(sound), sound[start:stop])
    assert sounding(sound, margin=300) == (start - 300, stop + 300)
    assert sounding(sound, margin=10**6) == (0, 16000)
    assert sounding(sound, threshold=-80) == (0, 16000)
    assert sounding(torch.zeros(4000)) == (0, 0)
    assert len(trim_silence(torch.zeros(4000))) == 4000
    with pytest.raises(ConfigError, match="to the loudest frame; got 40"):
        sounding(sound, threshold=40)


def test_the_end_of_a_synthesised_sound_is_a_quarter_into_silence():
    sound = torch.cat([torch.full((10001,), 0.5), torch.full((30000,), 0.005)])
    # windows of 12,800 samples begin at multiples of 3,200
    assert find_endpoint(sound, 16000) == 12800 + 3200
    assert find_endpoint(sound, 16000, threshold=-50) == len(sound)
    assert find_endpoint(sound[:20000], 16000) == 20000
    assert find_endpoint(sound, 16000, duration=0.2) == 10400 + 800


def test_made_speech_is_reproducible_and_says_when_its_symbols_are_heard():
    speech = synthetic_speech("hello is", seed=1)
    assert torch.equal(speech.samples, synthetic_speech("hello is", seed=1).samples)
    assert not torch.equal(speech.samples, synthetic_speech("hello is", seed=2).samples[: len(speech.samples)])
    assert float(speech.samples.abs().max()) <= 1
    ends = [0.1, *(end for _, end in speech.intervals)]
    assert [start for start, _ in speech.intervals] == pytest.approx(ends[:-1])
    assert ends[-1] + 0.1 == pytest.approx(len(speech.samples) / 16000)
    level = {
        symbol: float(speech.samples[round(start * 16000) : round(end * 16000)].square().mean())
        for symbol, (start, end) in zip("hello is", speech.intervals, strict=True)
    }
    assert level[" "] < 1e-6 < 1e-4 < min(level["h"], level["e"], level["l"])
    assert len(synthetic_speech("").samples) == 3200


def test_symbols_of_made_speech_sound_different():
    front_end = FRONT_ENDS["regard"]
    means = []
    for symbol in "aeioustkfm":
        speech = synthetic_speech(symbol * 3, silence=0.0)
        means.append(front_end.mel(speech.samples).mean(0))
    distances = torch.cdist(torch.stack(means), torch.stack(means))
    assert float((distances + 1e9 * torch.eye(10)).min()) > 1
