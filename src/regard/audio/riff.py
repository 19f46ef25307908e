"""WAV files: RIFF chunks with samples as integers of 8 to 32 bits or as floats."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
_FORMATS = {PCM: "PCM", 2: "ADPCM", FLOAT: "float", 6: "A-law", 7: "µ-law", 0x11: "IMA ADPCM", 0x55: "MP3"}


class UnreadableFormat(Exception):
    """An unsupported format of samples, named by the text."""


def decode(content: bytes, path: Path) -> tuple[NDArray[Any], int]:
    """Samples (N, channels) float32 in [-1, 1], and the sample rate.

    Raises:
        DataError: if the content is not a WAV file, or is truncated.
        UnreadableFormat: for compressed samples.
    """
    if content[:4] not in (b"RIFF", b"RF64") or content[8:12] != b"WAVE":
        raise DataError(f"{path}: not a WAV file: it begins with {content[:12]!r}.")
    form: tuple[int, int, int, int] | None = None
    at = 12
    while at + 8 <= len(content):
        name, size = content[at : at + 4], struct.unpack_from("<I", content, at + 4)[0]
        body = content[at + 8 : at + 8 + size]
        if name == b"fmt ":
            if len(body) < 16:
                raise DataError(f"{path}: the WAV file is truncated in its `fmt ` chunk.")
            form = _form(body)
        elif name == b"data":
            if form is None:
                raise DataError(f"{path}: the WAV file has no `fmt ` chunk before its samples.")
            # a size of 0 or of all ones is written by programs that stream
            body = content[at + 8 :] if size in (0, 0xFFFFFFFF) else body
            if len(body) < size != 0xFFFFFFFF:
                raise DataError(f"{path}: the WAV file is truncated: {len(body):,} of {size:,} bytes of samples.")
            return _numbers(body, *form[:2], form[3], path), form[2]
        at += 8 + size + size % 2
    raise DataError(f"{path}: the WAV file has no `data` chunk.")


def _form(body: bytes) -> tuple[int, int, int, int]:
    """Kind of samples, channels, sample rate and bits."""
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", body)
    if kind == EXTENSIBLE and len(body) >= 26:
        kind = struct.unpack_from("<H", body, 24)[0]
    return kind, channels, rate, bits


def _numbers(body: bytes, kind: int, channels: int, bits: int, path: Path) -> NDArray[Any]:
    if (kind, bits) not in ((PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64)):
        raise UnreadableFormat(f"{_FORMATS.get(kind, f'format {kind}')} of {bits} bits")
    if channels == 0:
        raise DataError(f"{path}: the WAV file has no channels.")
    body = body[: len(body) - len(body) % (channels * bits // 8)]
    samples: NDArray[Any]
    if kind == FLOAT:
        samples = np.frombuffer(body, f"<f{bits // 8}").astype(np.float32)
    elif bits == 8:
        samples = (np.frombuffer(body, np.uint8).astype(np.float32) - 128) / 128
    elif bits == 24:
        # as the upper three bytes of 32-bit integers
        wide = np.zeros((len(body) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(body, np.uint8).reshape(-1, 3)
        samples = (wide.view("<i4")[:, 0] >> 8).astype(np.float32) / 2**23
    else:
        samples = (np.frombuffer(body, f"<i{bits // 8}") / 2.0 ** (bits - 1)).astype(np.float32)
    return samples.reshape(-1, channels)


def encode(samples: NDArray[Any], sample_rate: int) -> bytes:
    """A WAV file with 16 bits of mono samples in [-1, 1]."""
    numbers = np.clip(np.rint(np.asarray(samples, np.float64) * 32768), -32768, 32767).astype("<i2").tobytes()
    form = struct.pack("<HHIIHH", PCM, 1, sample_rate, 2 * sample_rate, 2, 16)
    chunks = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(numbers)) + numbers
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks
