"""Arrays that grow at their end, in memory while they are small and beyond that in a temporary file."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from regard.data import cache

MOST_BYTES = 1 << 23
"""The most bytes that an array has in memory."""
MOST_SCRATCH = 1 << 24
"""The most bytes in memory of an array that is written in any order."""
BLOCK = 1 << 20
"""The number of values that are read or written at once."""


def release(*arrays: NDArray[Any]) -> None:
    """Lets the system drop the parts of files that were read into arrays, which it reads again when they are used."""
    for array in arrays:
        if isinstance(array.base, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
            array.base._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def blocks(*arrays: NDArray[Any]) -> Iterator[tuple[int, tuple[NDArray[Any], ...]]]:
    """Parts of arrays of equal length, `BLOCK` values at a time, with the index of the first one.

    >>> [(start, first.tolist()) for start, (first,) in blocks(np.arange(3))]
    [(0, [0, 1, 2])]
    """
    for start in range(0, len(arrays[0]), BLOCK):
        yield start, tuple(array[start : start + BLOCK] for array in arrays)
        release(*arrays)


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Writes an array with one axis as a file of NumPy (`.npy`), block by block."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        for _, (block,) in blocks(array):
            file.write(np.ascontiguousarray(block).data)


def scratch(size: int, kind: Any, *, most: int | None = None) -> NDArray[Any]:
    """An array of zeros to write into; in a temporary file if it has more than `MOST_SCRATCH` bytes, or `most`."""
    if size * np.dtype(kind).itemsize <= (MOST_SCRATCH if most is None else most):
        return np.zeros(size, kind)
    with cache.writing() as folder:
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it lives as long as the array
        os.posix_fallocate(file.fileno(), 0, size * np.dtype(kind).itemsize)
        return np.asarray(np.memmap(file, kind, "r+", shape=(size,)))


class GrowingArray:
    """An array of non-negative integers that grows block by block, in the smallest unsigned type that holds them all.

    Beyond `MOST_BYTES` it is in a temporary file without a name in the cache's folder, which the system removes with
    the array, also after a kill.

    Args:
        kind: the type, if it is not to follow from the values.

    >>> grown = GrowingArray()
    >>> grown.add(np.array([1, 2]))
    >>> grown.add(np.array([300]))
    >>> grown.array()
    array([  1,   2, 300], dtype=uint16)
    """

    def __init__(self, kind: Any = None) -> None:
        self._is_fixed = kind is not None
        self._kind: np.dtype[Any] = np.dtype(np.uint8 if kind is None else kind)
        self._blocks: list[NDArray[Any]] = []
        self._file: IO[bytes] | None = None
        self._size = 0

    @classmethod
    def of(cls, blocks: Iterable[NDArray[Any]], kind: Any = None) -> NDArray[Any]:
        """The array of some blocks."""
        grown = cls(kind)
        for block in blocks:
            grown.add(block)
        return grown.array()

    def __len__(self) -> int:
        return self._size

    def add(self, block: NDArray[Any]) -> None:
        """Appends values.

        Raises:
            RegardError: if the disk of the temporary file is full.
        """
        if not len(block):
            return
        if not self._is_fixed:
            kind = np.min_scalar_type(int(block.max()))
            if kind.itemsize > self._kind.itemsize:
                self._widen(kind)
        self._append(np.ascontiguousarray(block, dtype=self._kind))
        self._size += len(block)

    def array(self) -> NDArray[Any]:
        """The values; of those in a file, the system reads the parts that are used."""
        if self._file is None:
            self._blocks = [np.concatenate(self._blocks)] if self._blocks else [np.zeros(0, self._kind)]
            return self._blocks[0]
        return np.asarray(np.memmap(self._file, self._kind, "r", shape=(self._size,)))

    def _append(self, block: NDArray[Any]) -> None:
        if self._file is None and (self._size + len(block)) * self._kind.itemsize > MOST_BYTES:
            self._spill()
        if self._file is None:
            self._blocks.append(block)
        else:
            with cache.writing():
                self._file.write(block.data)

    def _spill(self) -> None:
        with cache.writing() as folder:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - it lives as long as the array
            for block in self._blocks:
                self._file.write(block.data)
        self._blocks = []

    def _widen(self, kind: np.dtype[Any]) -> None:
        """Writes the values again in a larger type."""
        before, size = self.array(), self._size
        self._kind, self._blocks, self._file, self._size = kind, [], None, 0
        for start in range(0, size, BLOCK):
            block = before[start : start + BLOCK].astype(kind)
            self._append(block)
            self._size += len(block)
