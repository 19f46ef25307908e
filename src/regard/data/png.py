"""Writing PNG files, without a package."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from regard.errors import ShapeError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB = 0, 2
"""The format's types of colour."""


def encode_png(image: NDArray[np.uint8]) -> bytes:
    """The bytes of a PNG file of 8 bits a channel; the same picture gives the same bytes.

    Args:
        image: (H, W), (H, W, 1) or (H, W, 3) uint8, at least one pixel.

    Raises:
        ShapeError: for another shape or type.

    Source: ISO/IEC 15948, Portable Network Graphics.

    >>> len(encode_png(np.zeros((64, 64, 3), np.uint8)))
    91
    """
    pixels = np.asarray(image)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or not pixels.size or pixels.dtype != np.uint8:
        raise ShapeError(f"A picture must be (H, W, 1|3) uint8, not empty; got {np.shape(image)} {pixels.dtype}.")
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, RGB if channels == 3 else GREY, 0, 0, 0)
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # every row begins with its filter: 0, none
    rows[:, 1:] = pixels.reshape(height, -1)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
