"""Training pairs of large files in the cache (`regard.data.cache`): encoded once, and read by every later training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard import __version__
from regard.config.schema import is_set
from regard.data import Finding, Pair, Pairs, Selection
from regard.data.cache import CacheEntry
from regard.data.defects import is_collecting
from regard.data.growing_array import save_array
from regard.data.pairs import LazyPairs, ListedPairs
from regard.data.sizes import Sizes
from regard.data.text import Field
from regard.data.text.checks import by_hash
from regard.data.text.survey import Affix, SideSurvey, Survey, survey
from regard.errors import DataError
from regard.runs.automatic_settings import replaced
from regard.runs.fingerprints import fingerprints
from regard.runs.trained_items import ITEMS, SharedItems, TrainedItems
from regard.tasks.text_to_text.config import PairDataConfig
from regard.tasks.text_to_text.mixture import PairMixture, data_files, parts_of
from regard.tasks.text_to_text.reading import PairReading, PairTrainingData, open_training_pairs, read_pairs
from regard.training import processes

LEAST_BYTES = 64 << 20
"""The size of training files from which on they are cached."""
ARRAYS = ("ids", "lengths", "starts")
SIDES = ("source", "target")
HELD_OUT = "dev.jsonl"


def read_data(data: PairDataConfig, *, are_alike: bool = False) -> PairTrainingData:
    """The training data, from the cache if the files are large; the first of several processes writes it.

    Args:
        are_alike: as in `read_pairs`.

    Raises:
        ConfigError: for settings that contradict each other or the files.
        DataError: for files that cannot be read, that have no pairs, or that change while they are read.
        RegardError: if the cache cannot be written, for example to a full disk.
    """
    before = _state(data)
    if is_collecting() or sum(size for size, _ in before) < LEAST_BYTES:
        return read_pairs(data, are_alike=are_alike)
    key = _key(data, are_alike)
    read: list[PairTrainingData] = []

    def ensure() -> None:
        if CacheEntry.find(key) is None:
            material = read_pairs(data, are_alike=are_alike)
            if _state(data) != before:
                raise DataError(f"{data.train}: the files have changed while they were read; repeat the command.")
            if CacheEntry.write(key, lambda folder: _store(material, folder)) is None:
                read.append(material)

    processes.first(ensure)
    entry = CacheEntry.find(key)
    if entry is None:  # the file system did not put it in place
        return read[0] if read else read_pairs(data, are_alike=are_alike)
    return _restored(data, entry)


def _state(data: PairDataConfig) -> list[tuple[int, int]]:
    """The size of each training file, those in folders included, and the time of its last change."""
    named = [file.path for file in data_files(data) if file.key == "data.train"]
    paths = [file for path in named for file in ([path] if not path.is_dir() else sorted(path.rglob("*")))]
    states = [path.stat() for path in paths if path.is_file()]
    return [(state.st_size, state.st_mtime_ns) for state in states]


def _key(data: PairDataConfig, are_alike: bool) -> str:
    """A text that depends on the settings, the content of the files and the version of regard."""
    settings = data.model_dump(mode="json", exclude={"train", "dev", "alignments"})
    settings["open"] = [are_alike, *(side for side in SIDES if not is_set(data, (side, "units")))]
    weights = [part.weight for part in parts_of(data.train)]
    for side in SIDES:
        settings[side].pop("sentencepiece_model")
    described = json.dumps([__version__, settings, weights, fingerprints(data_files(data))], sort_keys=True)
    return f"pairs-{hashlib.sha256(described.encode()).hexdigest()[:32]}"


def _store(material: PairTrainingData, folder: Path) -> dict[str, Any]:
    """Writes the material into a folder; returns what is stored besides."""
    equal = tuple(by_hash(material.reading.train, autoencode=material.config.autoencode))
    train = replace(material.reading.train, by_hash=equal)  # which the check does not look for again
    reading = replace(material.reading, train=train)
    material = replace(material, first_reading=reading)
    sides = {}
    for name, field, side in zip(SIDES, (material.source, material.target), (train.source, train.target), strict=True):
        for array in ARRAYS:
            save_array(folder / f"{name}.{array}.npy", getattr(side, array))
        field.save(folder, name)
        symbols = [list(side.counts), list(side.counts.values()), list(side.first.values())]
        (folder / f"{name}.symbols.json").write_text(json.dumps(symbols), encoding="utf-8")
        sides[name] = [[affix.symbols, affix.num_texts] for affix in (side.prefix, side.suffix)]
    np.save(folder / "sizes.npy", np.stack([train.sizes.source, train.sizes.target, train.sizes.count]))
    reading.trained.save(folder / ITEMS)
    if isinstance(material.train, Selection):
        save_array(folder / "rows.npy", material.train.indices)
    if material.config.dev is None:
        with (folder / HELD_OUT).open("w", encoding="utf-8") as file:
            for pair in material.dev:
                place = [str(pair.file), pair.line, None if pair.target_file is None else str(pair.target_file)]
                file.write(json.dumps([pair.source, pair.target, *place]) + "\n")
    return {
        "count": len(material.train),
        "is_shared": material.target is material.source,
        "chosen": dict(material.chosen),
        "sides": sides,
        "shared": asdict(reading.shared),
        "findings": [asdict(finding) for finding in material.check().findings],
        "by_hash": [asdict(finding) for finding in equal],
        "mixture": None if material.mixture is None else [material.mixture.ends, material.mixture.times],
    }


def _restored(data: PairDataConfig, entry: CacheEntry) -> PairTrainingData:
    """The material that `_store` has written."""
    stored, chosen = entry.contents, entry.contents["chosen"]
    resolved = replaced(data, {key.removeprefix("data."): value for key, value in chosen.items()})
    source = Field.load(entry.path, "source")
    target = source if stored["is_shared"] else Field.load(entry.path, "target")
    train = LazyPairs(_opener(data, entry), stored["count"])
    dev: Pairs = ListedPairs(_held_out(entry)) if data.dev is None else open_training_pairs(data, data.dev)
    shared: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in stored["shared"].items()
    }
    reading = PairReading(
        Survey(
            "train",
            train,
            _side(entry, "source", source),
            _side(entry, "target", target),
            Sizes(*entry.array("sizes")),
            _findings(stored["by_hash"]),
        ),
        survey("dev", dev, source, target),
        TrainedItems.load(entry.path / ITEMS),
        SharedItems(**shared),
    )
    mixture = None if stored["mixture"] is None else PairMixture(*map(tuple, stored["mixture"]))
    findings = _findings(stored["findings"])
    return PairTrainingData(resolved, train, dev, source, target, chosen, reading, mixture, findings)


def _findings(stored: list[dict[str, Any]]) -> tuple[Finding, ...]:
    return tuple(
        Finding(**{**each, "examples": tuple(each["examples"]), "details": tuple(each["details"])}) for each in stored
    )


def _opener(data: PairDataConfig, entry: CacheEntry) -> Callable[[], Pairs]:
    """A function that opens the text of the training pairs, which only messages need."""

    def opened() -> Pairs:
        pairs = open_training_pairs(data, data.train)
        return Selection(pairs, entry.array("rows")) if (entry.path / "rows.npy").exists() else pairs

    return opened


def _held_out(entry: CacheEntry) -> list[Pair]:
    pairs = []
    with (entry.path / HELD_OUT).open(encoding="utf-8") as file:
        for line in file:
            source, target, path, number, other = json.loads(line)
            pairs.append(Pair(source, target, Path(path), number, None if other is None else Path(other)))
    return pairs


def _side(entry: CacheEntry, name: str, field: Field) -> SideSurvey:
    symbols, counts, first = json.loads((entry.path / f"{name}.symbols.json").read_text(encoding="utf-8"))
    prefix, suffix = (Affix(tuple(affix), number) for affix, number in entry.contents["sides"][name])
    ids, lengths, starts = (entry.array(f"{name}.{array}") for array in ARRAYS)
    counts, first = dict(zip(symbols, counts, strict=True)), dict(zip(symbols, first, strict=True))
    return SideSurvey(name, field, ids, lengths, starts, np.zeros(0, np.uint64), counts, first, prefix, suffix)
