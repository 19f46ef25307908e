"""The files of training pairs: patterns of names, and how often the pairs of each file occur in an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config.texts import ParallelFiles, WeightedPairs
from regard.data import Pairs, Selection
from regard.data.growing_array import BLOCK, GrowingArray, scratch
from regard.data.pairs import JoinedPairs
from regard.errors import ConfigError, DataError
from regard.runs.fingerprints import DataFile
from regard.tasks.text_to_text.config import PairDataConfig, PairFiles

PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Part:
    """A file of training pairs, or two parallel ones, with the weight of its pairs."""

    files: Path | ParallelFiles
    weight: float = 1.0

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [self.files.source, self.files.target] if isinstance(self.files, ParallelFiles) else [self.files]


def parts_of(named: PairFiles) -> list[Part]:
    """The files that `data.train` or `data.dev` name, in order; those of a pattern by their names.

    Raises:
        DataError: for a pattern without files.
    """
    parts = []
    for each in named if isinstance(named, tuple) else (named,):
        files, weight = (each.file, each.weight) if isinstance(each, WeightedPairs) else (each, 1.0)
        if isinstance(files, ParallelFiles) or not _is_pattern(files):
            parts.append(Part(files, weight))
            continue
        found = sorted(files.parent.glob(files.name))
        if not found:
            raise DataError(f"{files}: no file has such a name.")
        parts += [Part(file, weight) for file in found]
    return parts


def shown(named: Any) -> str:
    """The files, for messages."""
    return ", ".join(map(str, named)) if isinstance(named, tuple) else str(named)


def data_files(data: PairDataConfig) -> list[DataFile]:
    """The files of a configuration, whose fingerprints are saved."""
    files = list[DataFile]()
    for name, value in (("train", data.train), ("dev", data.dev)):
        paths = [] if value is None else [path for part in parts_of(value) for path in part.paths]
        files += DataFile.numbered(name, paths)
    if data.alignments is not None:
        files.append(DataFile("data.alignments", "alignments", data.alignments))
    for side, pieces in (("source", data.source.sentencepiece_model), ("target", data.target.sentencepiece_model)):
        if pieces is not None:
            files.append(DataFile(f"data.{side}.sentencepiece_model", f"{side}.model", pieces))
    return files


@dataclass(frozen=True)
class PairMixture:
    """How often the training pairs of each file occur in an epoch.

    Args:
        ends: the index of the training pair after the last one of each file.
        times: how often each pair of the file occurs. Of a fraction, as many pairs occur once more, others in each
            epoch.
    """

    ends: tuple[int, ...]
    times: tuple[float, ...]

    @classmethod
    def of(cls, data: PairDataConfig, pairs: Pairs, train: Pairs) -> PairMixture | None:
        """That of a configuration; None if every pair occurs once.

        With n_i pairs in file i and the temperature T, its pairs are n_i^(1/T) of the sum of all of these.

        Args:
            pairs: those of all files.
            train: those that are not held out.
        """
        sizes = np.array(pairs.starts[1:] if isinstance(pairs, JoinedPairs) else [len(pairs)])
        ends = np.searchsorted(train.indices, sizes) if isinstance(train, Selection) else sizes
        counts = np.diff(ends, prepend=0)
        times = np.array([part.weight for part in parts_of(data.train)])
        if data.temperature != 1:
            shares = counts ** (1 / data.temperature)
            times *= shares / shares.sum() * counts.sum() / np.maximum(counts, 1)
        if (times == 1).all():
            return None
        return cls(tuple(ends.tolist()), tuple(times.tolist()))

    @property
    def growth(self) -> float:
        """The number of pairs of an epoch for each training pair."""
        counts = np.diff(self.ends, prepend=0)
        return float((counts * self.times).sum() / max(counts.sum(), 1))

    def items(self, count: int, used: NDArray[Any] | None, *, seed: int, epoch: int) -> NDArray[Any]:
        """The indices of the training pairs of an epoch, a pure function of the arguments.

        Args:
            count: the number of training pairs; those after the last file occur once.
            used: the indices of those that are used, in order; all if None.
        """
        return GrowingArray.of(self._blocks(count, used, seed=seed, epoch=epoch))

    def _blocks(self, count: int, used: NDArray[Any] | None, *, seed: int, epoch: int) -> Iterator[NDArray[Any]]:
        edges = (0, *self.ends, count)
        for number, ((first, last), times) in enumerate(zip(pairwise(edges), (*self.times, 1.0), strict=True)):
            if used is not None:
                first, last = (int(np.searchsorted(used, edge)) for edge in (first, last))
            whole = int(times)
            chosen = np.arange(0)
            if share := round((times - whole) * (last - first)):
                order = scratch(last - first, np.uint32)
                order[:] = np.arange(last - first)
                np.random.default_rng((seed, epoch, number)).shuffle(order)
                chosen = np.sort(order[:share])
            for start in range(first, last, BLOCK):
                places = np.arange(start, min(start + BLOCK, last))
                within = np.searchsorted(chosen, (start - first, start - first + BLOCK))
                again = first + chosen[slice(*within)].astype(np.int64)
                places = np.concatenate([*[places] * whole, again])
                yield places if used is None else used[places]


def check_mixture(data: PairDataConfig) -> None:
    """Refuses a temperature that has nothing to mix, and reference alignments of several files."""
    are_several = isinstance(data.train, tuple) or (isinstance(data.train, Path) and _is_pattern(data.train))
    if data.temperature != 1 and not are_several:
        raise ConfigError("temperature mixes several files; data.train names one", ("data", "temperature"))
    if data.alignments is not None and are_several:
        raise ConfigError("alignments are of the lines of one file; data.train names several", ("data", "alignments"))


def _is_pattern(path: Path) -> bool:
    return not PATTERN.isdisjoint(path.name) and not path.exists()
