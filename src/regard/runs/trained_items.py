"""Records the items that a model was trained on as hashes of 40 bits, so that an evaluation can count them.

A model folder has them in `trained.npy`: two hashes of five bytes for an item, one of its input and one of its input
with its output; 3 MB for 300,000 items. Of more than a million items, it has those of an even share of the inputs. Of
200 files of 10,000 new items, one has by chance an item with the hash of a trained one.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.finding import NUM_EXAMPLES, Finding
from regard.data.growing_array import GrowingArray
from regard.errors import DataError, counted, first_of
from regard.files import read_array

ITEMS = "trained.npy"
BYTES = 5
HEAD = 1 << 16
"""The number of bytes at the beginning of a file, such as a picture, that identify it together with its size."""
MOST_RECORDED = 1_000_000
"""The approximate number of items of which all are recorded."""
MOST_SHARED = 0.5
"""The share of trained items from which on held-out data are refused."""


class DataItem(NamedTuple):
    """An item of the data.

    Args:
        place: its place in the data, such as `test.tsv:3`.
        read: the input of the model, normalised.
        right: the right outputs, one for each reference.
    """

    place: str
    read: str
    right: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeenItems:
    """The items of an evaluation that were trained on.

    Args:
        count: the number of the items that were looked up.
        every: how many items there are for each of them.
        items: the places of those that were trained on with the same output.
        inputs: the places of those whose input was trained on with another output.
    """

    count: int
    items: tuple[str, ...]
    inputs: tuple[str, ...]
    every: int = 1

    def __str__(self) -> str:
        """A sentence for each kind, or nothing."""
        texts = []
        looked_up = f" that were looked up, one in {self.every:,}," if self.every > 1 else ""
        if self.items:
            number = counted(len(self.items), f"of {self.count:,} items{looked_up} was|were")
            texts.append(
                f"{number} trained on with the same output ({first_of(self.items)}), so the figures flatter the model"
            )
        if self.inputs:
            others = counted(len(self.inputs), f"{'other ' * bool(self.items)}item|items has|have")
            texts.append(f"{others} an input that was trained on with another output ({first_of(self.inputs)})")
        return "; ".join(texts)


@dataclass(frozen=True, slots=True)
class TrainedItems:
    """The items that a model was trained on.

    Args:
        hashes: sorted and distinct.
        every: one in this number of inputs is recorded.
    """

    hashes: NDArray[np.uint64]
    every: int = 1

    @classmethod
    def of(cls, items: Iterable[DataItem]) -> TrainedItems:
        """The record of some items."""
        hashes = (value for item in items for value in _hashes(item.read, item.right))
        return cls(np.unique(np.fromiter(hashes, dtype=np.uint64)))

    def __or__(self, other: TrainedItems | None) -> TrainedItems:
        if other is None:
            return self
        return TrainedItems(np.union1d(self.hashes, other.hashes), max(self.every, other.every))

    def seen(self, items: Iterable[DataItem]) -> SeenItems:
        """The items that were trained on, with at least one of their right outputs or with their input only."""
        count, whole, inputs = 0, [], []
        for item in items:
            if not is_recorded(item.read, self.every):
                continue
            count += 1
            read, *both = map(self._has, _hashes(item.read, item.right))
            if any(both):
                whole.append(item.place)
            elif read:
                inputs.append(item.place)
        return SeenItems(count, tuple(whole), tuple(inputs), self.every)

    def save(self, path: Path) -> None:
        """Writes them into a file."""
        columns = self.hashes.astype(">u8").view(np.uint8).reshape(-1, 8)[:, -BYTES:]
        with path.open("wb") as file:
            np.save(file, columns, allow_pickle=False)
            if self.every > 1:
                np.save(file, np.array(self.every), allow_pickle=False)

    @classmethod
    def load(cls, path: Path) -> TrainedItems:
        """Reads what `save` wrote.

        Raises:
            DataError: for another file.
        """
        try:
            with path.open("rb") as file:
                columns = read_array(file)
                every = int(read_array(file)) if file.peek(1) else 1
            if columns.dtype != np.uint8 or columns.shape[1:] != (BYTES,):
                raise ValueError("expected rows of five bytes")
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path}: not the items that a model was trained on ({error}).") from None
        rows = np.zeros((len(columns), 8), np.uint8)
        rows[:, -BYTES:] = columns
        return cls(rows.view(">u8").ravel().astype(np.uint64), every)

    def _has(self, value: int) -> bool:
        place = int(np.searchsorted(self.hashes, np.uint64(value)))
        return place < len(self.hashes) and int(self.hashes[place]) == value


class TrainedItemsRecorder:
    """Records pairs of a normalised input and its right output that are read part by part.

    Args:
        count: the number of all pairs.
    """

    def __init__(self, count: int) -> None:
        self.every = -(-count // MOST_RECORDED) if count else 1
        self._hashes = GrowingArray(np.uint64)

    def add(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Adds pairs."""
        pairs = zip(inputs, outputs, strict=True)
        hashes = [value for read, right in pairs if is_recorded(read, self.every) for value in _hashes(read, (right,))]
        self._hashes.add(np.array(hashes, np.uint64))

    def result(self) -> TrainedItems:
        """The record."""
        hashes = np.sort(self._hashes.array())
        return TrainedItems(hashes[np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]], self.every)


def is_recorded(read: str, every: int) -> bool:
    """Whether an input is one of those that are recorded if one in `every` is."""
    return every == 1 or zlib.crc32(read.encode("utf-8", "surrogatepass")) < (1 << 32) // every


def content(path: Path) -> str:
    """A text that identifies a file: its size and a hash of its first 64 KiB; its name, if it cannot be read."""
    try:
        with path.open("rb") as file:
            return f"{path.stat().st_size} {hashlib.blake2b(file.read(HEAD), digest_size=8).hexdigest()}"
    except OSError:
        return str(path)


def shared_items(train: Iterable[DataItem], dev: Iterable[DataItem], *, refused: bool) -> Iterator[Finding]:
    """Findings about held-out items, or inputs of held-out items, that are trained on; with the places of both.

    Args:
        refused: reports an error, not a warning, if half of the held-out items or more are training items.
    """
    held_out = [(item.place, _hashes(item.read, item.right)) for item in dev]
    wanted = {key for _, keys in held_out for key in keys}
    places: dict[int, str] = {}
    for item in train if wanted else ():
        for key in wanted.intersection(_hashes(item.read, item.right)):
            places.setdefault(key, item.place)
    same, others = [], []
    for place, (read, *both) in held_out:
        if known := [places[key] for key in both if key in places]:
            same.append(f"{place} is {known[0]}")
        elif read in places:
            others.append(f"{place} and {places[read]}")
    counts = SharedItems(
        len(held_out), len(same), tuple(same[:NUM_EXAMPLES]), len(others), tuple(others[:NUM_EXAMPLES])
    )
    return counts.findings(refused=refused)


@dataclass(frozen=True, slots=True)
class SharedItems:
    """Held-out items that are trained on.

    Args:
        count: the number of held-out items.
        num_same: the number of those with the input and the output of a training item.
        same: the places of the first of them, with those in the training data.
        num_inputs: the number of others with the input of a training item.
        inputs: the places of the first of them, with those in the training data.
    """

    count: int
    num_same: int
    same: tuple[str, ...]
    num_inputs: int
    inputs: tuple[str, ...]

    def findings(self, *, refused: bool) -> Iterator[Finding]:
        """As `shared_items`."""
        of = f"of {self.count:,} held-out items"
        if self.num_same:
            yield self._of_same(of, refused=refused)
        if self.num_inputs:
            text = counted(self.num_inputs, f"{of} has|have the input of a training item, with another output")
            yield Finding("warning", text, self.num_inputs, self.inputs)

    def _of_same(self, of: str, *, refused: bool) -> Finding:
        text = counted(self.num_same, f"{of} is|are also in the training, with the same output, so figures ")
        is_useless = self.num_same >= MOST_SHARED * self.count
        text += "on them say nothing about the model" if is_useless else "flatter the model"
        is_error = refused and is_useless
        if is_error:
            text += (
                "; name another file in data.dev, or leave it out, and a part of the training data is held out. To see "
                "whether a model can memorise data, set training.allow_trained_dev=true"
            )
        return Finding("error" if is_error else "warning", text, self.num_same, self.same)


def _hashes(read: str, right: Iterable[str]) -> list[int]:
    """The hash of an input, and those of the input with each of its right outputs."""
    digest = hashlib.blake2b(_framed(read), digest_size=BYTES)
    digests = [digest]
    for text in right:
        digests.append(digest.copy())
        digests[-1].update(_framed(text))
    return [int.from_bytes(each.digest(), "big") for each in digests]


def _framed(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(8, "big") + encoded
