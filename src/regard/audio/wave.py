"""Sound files: WAV, and with soundfile FLAC and other formats of libsndfile."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.audio import riff
from regard.audio.resampling import resample
from regard.errors import DataError, ShapeError
from regard.files import replace_file
from regard.lazy import optional
from regard.shapes import Float, describe

Report = Callable[[str], None]


def read_wave(
    path: str | os.PathLike[str], sample_rate: int | None = None, *, report: Report | None = None
) -> tuple[Float[Tensor, " samples"], int]:
    """The samples of a file in [-1, 1], float32, one channel, and their rate.

    WAV files of PCM or floats are read without any package; others (FLAC, OGG, compressed WAV) need soundfile.
    Channels are averaged, float samples beyond ±1 are divided by their peak, and other rates are resampled.

    Args:
        sample_rate: in Hz; None: that of the file.
        report: called with a sentence about each change (channels, peak, sample rate), which names the file; None: a
            warning.

    Raises:
        DataError: for a file that is missing, not a sound, or has no samples or a number that is not finite.
        UnsupportedError: if the file needs soundfile, which is not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_wave(Path(folder) / "tone.wav", torch.full((400,), 0.25), 8000)
    ...     samples, rate = read_wave(path)
    >>> samples[:3], rate
    (tensor([0.2500, 0.2500, 0.2500]), 8000)
    """
    file, report = Path(path), report or _warn
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: the sound cannot be read: {error.strerror}.") from None
    channels, rate = _decoded(content, file)
    if not len(channels):
        raise DataError(f"{file}: the file has no samples.")
    if not np.isfinite(channels).all():
        where = int(np.flatnonzero(~np.isfinite(channels).all(1))[0])
        raise DataError(f"{file}: sample {where + 1:,} is {channels[where].tolist()}; samples must be finite.")
    if channels.shape[1] > 1:
        report(f"{file}: {channels.shape[1]} channels are averaged to one.")
    samples = torch.from_numpy(channels.mean(1) if channels.shape[1] > 1 else channels[:, 0].copy())
    if (peak := float(samples.abs().max())) > 1:
        report(f"{file}: its peak is {peak:.2f}, above 1; all samples are divided by it.")
        samples = samples / peak
    if sample_rate is None or rate == sample_rate:
        return samples, rate
    lost = f"; it has nothing above {rate / 2:,.0f} Hz" if rate < sample_rate else ""
    report(f"{file}: resampled from {rate:,} Hz to {sample_rate:,} Hz{lost}.")
    return resample(samples, rate, sample_rate), sample_rate


def write_wave(
    path: str | os.PathLike[str],
    samples: Float[Tensor, " samples"],
    sample_rate: int,
    *,
    loud: Literal["scale", "clip"] = "scale",
) -> Path:
    """Writes a sound with 16 bits per sample: a WAV file, or by soundfile a FLAC file if the name ends in `.flac`.

    The file is written atomically.

    Args:
        samples: in [-1, 1].
        loud: whether a sound beyond that range is scaled down or clipped.

    Raises:
        ShapeError: for samples that are not (N,) real numbers.
        DataError: for samples that are not finite, or another suffix.
        RegardError: for a file that cannot be written.
        UnsupportedError: for a FLAC file if soundfile is not installed.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in (".wav", ".flac"):
        raise DataError(f"{file}: sounds are written as .wav or .flac; got {file.suffix or 'no suffix'!r}.")
    numbers = _numbers(samples, f"{file}: ", loud)
    content = riff.encode(numbers, sample_rate) if suffix == ".wav" else _flac(numbers, sample_rate)
    replace_file(file, lambda partial: partial.write_bytes(content))
    return file


def encode_wave(samples: Float[Tensor, " samples"], sample_rate: int) -> bytes:
    """The content of the WAV file that `write_wave` writes; errors as there."""
    return riff.encode(_numbers(samples, "", "scale"), sample_rate)


def _numbers(samples: Tensor, place: str, loud: Literal["scale", "clip"]) -> NDArray[np.float64]:
    """Samples that a file can hold."""
    if samples.dim() != 1 or not samples.is_floating_point():
        shown = describe({"samples": ("N", samples)})
        raise ShapeError(f"samples must be one sound of real numbers, (N,).\n{shown}")
    if not bool(samples.isfinite().all()):
        where = int((~samples.isfinite()).nonzero()[0])
        raise DataError(f"{place}sample {where + 1:,} is {float(samples[where])}; samples must be finite.")
    numbers: NDArray[np.float64] = samples.detach().cpu().double().numpy()
    largest = np.abs(numbers).max(initial=0.0)
    return numbers / largest if loud == "scale" and largest > 1 else numbers


def _decoded(content: bytes, path: Path) -> tuple[NDArray[Any], int]:
    if content[:4] in (b"RIFF", b"RF64"):
        try:
            return riff.decode(content, path)
        except riff.UnreadableFormat as unreadable:
            purpose = f"{path}: {unreadable} needs"
    elif not content:
        raise DataError(f"{path}: the file is empty.")
    else:
        purpose = f"{path}: a file that is not WAV needs"
    soundfile = optional("soundfile", purpose, extra="audio")
    try:
        samples, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    except soundfile.SoundFileError as error:
        reason = re.sub(r"Error opening <[^>]*>: ", "", str(error))
        raise DataError(f"{path}: not a sound that can be read: {reason}") from None
    return samples, int(rate)


def _flac(numbers: NDArray[Any], sample_rate: int) -> bytes:
    soundfile = optional("soundfile", "Writing FLAC files needs", extra="audio")
    file = io.BytesIO()
    whole = np.clip(np.rint(numbers * 32768), -32768, 32767).astype(np.int16)
    soundfile.write(file, whole, sample_rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=3)
