"""Records the items that a model was trained on as hashes of 40 bits, so that an evaluation can count them.

A model folder has them in `trained.npy`: two hashes of five bytes for an item, one of its input and one of its input
with its output; 3 MB for 300,000 items. Of 200 files of 10,000 new items, one has by chance an item with the hash of a
trained one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.finding import NUM_EXAMPLES, Finding
from regard.errors import DataError, counted, first_of
from regard.files import read_array

ITEMS = "trained.npy"
BYTES = 5
HEAD = 1 << 16
"""The number of bytes at the beginning of a file, such as a picture, that identify it together with its size."""
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
        count: the number of all items.
        items: the places of those that were trained on with the same output.
        inputs: the places of those whose input was trained on with another output.
    """

    count: int
    items: tuple[str, ...]
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        """A sentence for each kind, or nothing."""
        texts = []
        if self.items:
            texts.append(
                f"{counted(len(self.items), f'of {self.count:,} items was|were')} trained on with the same output "
                f"({first_of(self.items)}), so the figures flatter the model"
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
    """

    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, items: Iterable[DataItem]) -> TrainedItems:
        """The record of some items."""
        hashes = (_hash(*texts) for item in items for texts in _keys(item))
        return cls(np.unique(np.fromiter(hashes, dtype=np.uint64)))

    def __or__(self, other: TrainedItems | None) -> TrainedItems:
        return self if other is None else TrainedItems(np.union1d(self.hashes, other.hashes))

    def seen(self, items: Iterable[DataItem]) -> SeenItems:
        """The items that were trained on, with at least one of their right outputs or with their input only."""
        count, whole, inputs = 0, [], []
        for item in items:
            count += 1
            read, *both = (self._has(_hash(*texts)) for texts in _keys(item))
            if any(both):
                whole.append(item.place)
            elif read:
                inputs.append(item.place)
        return SeenItems(count, tuple(whole), tuple(inputs))

    def save(self, path: Path) -> None:
        """Writes them into a file."""
        columns = self.hashes.astype(">u8").view(np.uint8).reshape(-1, 8)[:, -BYTES:]
        with path.open("wb") as file:
            np.save(file, columns, allow_pickle=False)

    @classmethod
    def load(cls, path: Path) -> TrainedItems:
        """Reads what `save` wrote.

        Raises:
            DataError: for another file.
        """
        try:
            columns = read_array(path)
            if columns.dtype != np.uint8 or columns.shape[1:] != (BYTES,):
                raise ValueError("expected rows of five bytes")
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path}: not the items that a model was trained on ({error}).") from None
        rows = np.zeros((len(columns), 8), np.uint8)
        rows[:, -BYTES:] = columns
        return cls(rows.view(">u8").ravel().astype(np.uint64))

    def _has(self, value: int) -> bool:
        place = int(np.searchsorted(self.hashes, np.uint64(value)))
        return place < len(self.hashes) and int(self.hashes[place]) == value


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
    held_out = [(item.place, [_hash(*texts) for texts in _keys(item)]) for item in dev]
    wanted = {key for _, keys in held_out for key in keys}
    places: dict[int, str] = {}
    for item in train if wanted else ():
        for texts in _keys(item):
            if (key := _hash(*texts)) in wanted:
                places.setdefault(key, item.place)
    same, others = [], []
    for place, (read, *both) in held_out:
        if known := [places[key] for key in both if key in places]:
            same.append(f"{place} is {known[0]}")
        elif read in places:
            others.append(f"{place} and {places[read]}")
    of = f"of {len(held_out):,} held-out items"
    if same:
        text = counted(len(same), f"{of} is|are also in the training, with the same output, so figures ")
        is_useless = len(same) >= MOST_SHARED * len(held_out)
        text += "on them say nothing about the model" if is_useless else "flatter the model"
        is_error = refused and is_useless
        if is_error:
            text += (
                "; name another file in data.dev, or leave it out, and a part of the training data is held out. To see "
                "whether a model can memorise data, set training.allow_trained_dev=true"
            )
        yield Finding("error" if is_error else "warning", text, len(same), tuple(same[:NUM_EXAMPLES]))
    if others:
        text = counted(len(others), f"{of} has|have the input of a training item, with another output")
        yield Finding("warning", text, len(others), tuple(others[:NUM_EXAMPLES]))


def _keys(item: DataItem) -> Iterator[tuple[str, ...]]:
    yield (item.read,)
    for text in item.right:
        yield (item.read, text)


def _hash(*texts: str) -> int:
    digest = hashlib.blake2b(digest_size=BYTES)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return int.from_bytes(digest.digest(), "big")
