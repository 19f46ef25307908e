"""Sentencepiece models that are restricted to some pieces, and vocabularies in the order of their pieces."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch

from regard.data.text import Vocabulary
from regard.data.text.pieces import SentencePieceUnits
from regard.data.text.vocabulary import SPECIALS
from regard.errors import DataError
from regard.interop.texts import Symbols

PIECE, NAME, TYPE = 1, 1, 3
"""Field numbers: of a piece in a model, of its name and of its type in the piece."""
NORMAL, UNUSED = 1, 5
"""The types of pieces that a restriction changes."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of fields."""


def restricted(model: bytes, symbols: Collection[str]) -> bytes:
    """A model that splits texts only into these symbols and single characters, as sentencepiece's `SetVocabulary`.

    All other pieces are marked as unused.

    Args:
        model: the bytes of a sentencepiece model, a message of protocol buffers.
        symbols: the pieces that are used.

    Raises:
        DataError: for bytes that are no such model.
    """
    try:
        return b"".join(_restricted(*field, symbols) for field in _fields(model))
    except (IndexError, ValueError):
        raise DataError(f"Not a sentencepiece model ({len(model):,} bytes).") from None


def _restricted(number: int, kind: int, content: bytes, written: bytes, symbols: Collection[str]) -> bytes:
    """A field of the model; a piece gets its type in the restriction."""
    if (number, kind) != (PIECE, BYTES):
        return written
    fields = list(_fields(content))
    name = next((content.decode("utf-8") for number, _, content, _ in fields if number == NAME), "")
    type = next((int.from_bytes(content, "little") for number, _, content, _ in fields if number == TYPE), NORMAL)
    if type not in (NORMAL, UNUSED):
        return written
    used = name in symbols or len(name) == 1
    others = b"".join(written for number, _, _, written in fields if number != TYPE)
    changed = others + bytes([TYPE << 3 | VARINT, NORMAL if used else UNUSED])
    return bytes([PIECE << 3 | BYTES]) + _varint(len(changed)) + changed


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Number, kind, content and all bytes of each field of a message."""
    start = 0
    while start < len(message):
        tag, place = _read_varint(message, start)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, end = _read_varint(message, place)
            content = value.to_bytes(8, "little")
        elif kind in (FIXED64, FIXED32):
            end = place + (8 if kind == FIXED64 else 4)
            content = message[place:end]
        elif kind == BYTES:
            size, place = _read_varint(message, place)
            end = place + size
            content = message[place:end]
        else:
            raise ValueError(kind)
        if end > len(message):
            raise ValueError(end)
        yield number, kind, content, message[start:end]
        start = end


def _read_varint(message: bytes, start: int) -> tuple[int, int]:
    """A number of seven bits per byte, lowest first, and the position behind it."""
    value, shift = 0, 0
    while True:
        byte = message[start]
        start += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, start


def _varint(value: int) -> bytes:
    """The inverse of `_read_varint`."""
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def of_pieces(units: SentencePieceUnits, symbols: Symbols) -> Symbols:
    """The pieces of a model in its order, followed by the other program's further symbols, with their numbers there; -1
    for a piece that it does not have."""
    specials, others = symbols.numbers[: len(SPECIALS)], symbols.vocabulary.symbols
    places = dict(zip(others, symbols.numbers[len(SPECIALS) :].tolist(), strict=True))
    pieces = units.inventory or ()
    names = [*pieces, *(name for name in others if name not in set(pieces))]
    numbers = torch.tensor([places.get(name, -1) for name in names], dtype=torch.long)
    return Symbols(Vocabulary(names), torch.cat([specials, numbers]))
