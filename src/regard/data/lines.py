"""Random access to the lines of a text file, which may be larger than memory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from regard.data.growing_array import GrowingArray, release
from regard.data.text_file import not_utf8, open_text
from regard.errors import DataError

CHUNK_BYTES = 1 << 20
CHUNK_LINES = 1 << 14
"""The number of lines that an iteration reads at once."""


class Lines:
    """A UTF-8 text file as a sequence of lines, with only their offsets in memory, or on disk if there are many.

    Lines end with `\\n` or `\\r\\n` only; the last line may have no end. A byte order mark is skipped. Compressed files
    are unpacked into a temporary file (`open_text`). Instances can be pickled, which reopens the file, and read by
    several threads and processes at once.

    Args:
        skip_blank: leave out lines of spaces only; a line with a tab is not blank.

    Raises:
        DataError: if the file is missing or not text; when a line is read, if it is not UTF-8 or the file has changed.
    """

    def __init__(self, path: Path | str, *, skip_blank: bool = False) -> None:
        self.path = Path(path)
        self._open()
        self.offsets, self._filled = _scan(self._file, skip_blank=skip_blank)
        self._count = len(self.offsets) - 1 if self._filled is None else len(self._filled)

    def __len__(self) -> int:
        return self._count

    @property
    def num_skipped(self) -> int:
        """The number of blank lines left out."""
        return len(self.offsets) - 1 - len(self)

    def number(self, index: int) -> int:
        """The line's number in the file, from 1."""
        return 1 + (index if self._filled is None else int(self._filled[index]))

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), CHUNK_LINES):
            yield from self.part(start, min(start + CHUNK_LINES, len(self)))

    def part(self, start: int, stop: int) -> list[str]:
        """The lines from one index to another, read at once."""
        if stop <= start:
            return []
        first, last = self.number(start) - 1, self.number(stop - 1)  # from 0, and the end
        raw = self._read(int(self.offsets[first]), int(self.offsets[last] - self.offsets[first]))
        try:
            lines = raw.decode("utf-8").replace("\r\n", "\n").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            lines = []
        ends = np.flatnonzero(np.frombuffer(raw, np.uint8) == 10) + 1 + self.offsets[first]
        expected = self.offsets[first + 1 : last + (not raw or raw.endswith(b"\n"))]
        is_same = np.array_equal(ends, expected)
        release(self.offsets)
        if len(lines) != last - first or raw.endswith(b"\r") or not is_same:
            return [self[index] for index in range(start, stop)]  # which raises the error of a line
        if last - first == stop - start:
            return lines
        is_filled = np.zeros(last - first, np.bool_)
        is_filled[np.asarray(self._filled)[start:stop].astype(np.int64) - first] = True
        return list(compress(lines, is_filled.tolist()))

    def __getitem__(self, index: int) -> str:
        if not -self._count <= index < self._count:
            raise IndexError(f"{self.path} has {self._count} lines; got the index {index}.")
        number = self.number(index % self._count)
        start, end = int(self.offsets[number - 1]), int(self.offsets[number])
        raw = self._read(start, end - start)
        if raw.find(b"\n", 0, -1) >= 0 or (not raw.endswith(b"\n") and end < self.offsets[-1]):
            raise DataError(f"{self.path} has changed since it was opened: line {number} ends at another position.")
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"byte {error.start + 1} of the line ({start + error.start + 1} of the file)"
            raise not_utf8(f"{self.path}:{number}", raw, error.start, where=where) from None

    def _open(self) -> None:
        self._file = open_text(self.path)
        weakref.finalize(self, self._file.close)

    def _read(self, start: int, size: int) -> bytes:
        if hasattr(os, "pread"):
            raw = os.pread(self._file.fileno(), size, start)
        else:
            with open_text(self.path) as file:
                file.seek(start)
                raw = file.read(size)
        if len(raw) < size:
            raise DataError(
                f"{self.path} has become shorter since it was opened: {size - len(raw):,} bytes are missing."
            )
        return raw

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_file"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()
        size = os.fstat(self._file.fileno()).st_size
        if size != self.offsets[-1]:
            raise DataError(
                f"{self.path} has changed since it was opened: {self.offsets[-1]:,} bytes then, {size:,} now."
            )


def check_parallel(first: Lines, *others: Lines) -> None:
    """Refuses parallel files with different numbers of lines."""
    for other in others:
        if len(other) != len(first):
            raise DataError(
                "Parallel files need the same number of lines.\n"
                f"  {first.path}: {len(first):,} lines\n  {other.path}: {len(other):,} lines"
            )


def _scan(file: IO[bytes], *, skip_blank: bool) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The offset of each line and of the end, (lines + 1,), and the indices of the lines that are not blank; None if
    none is left out."""
    offsets, filled = GrowingArray(np.int64), GrowingArray()
    position = start = file.tell()
    count, is_filled = 0, False
    offsets.add(np.array([position]))

    def add(ends: NDArray[np.int64], are_filled: NDArray[np.bool_]) -> None:
        nonlocal count
        offsets.add(ends)
        if skip_blank:
            filled.add(count + np.flatnonzero(are_filled))
        count += len(ends)

    while chunk := file.read(CHUNK_BYTES):
        data = np.frombuffer(chunk, dtype=np.uint8)
        visible = (data > 32) | (data == 9)
        ends = np.flatnonzero(data == 10)
        if len(ends):
            starts = np.concatenate(([0], ends[:-1] + 1))
            lines = np.logical_or.reduceat(visible[: ends[-1] + 1], starts)
            lines[0] |= is_filled
            add(position + ends + 1, lines)
            start = position + int(ends[-1]) + 1
            is_filled = False
            visible = visible[ends[-1] + 1 :]
        is_filled = is_filled or bool(visible.any())
        position += len(chunk)
    if position > start:
        add(np.array([position]), np.array([is_filled]))
    return offsets.array(), None if not skip_blank or len(filled) == count else filled.array()
