"""The pairs of a configuration, and the fields that are learned from them."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config.schema import is_set
from regard.data import Finding, Pairs
from regard.data.finding import NUM_EXAMPLES, too_few
from regard.data.pairs import JoinedPairs
from regard.data.split import hold_out, suggested_fraction
from regard.data.text import Field, Report, open_pairs
from regard.data.text.checks import Composed, report
from regard.data.text.field import COMPOSED_FORMS, normalisation_of, open_pieces
from regard.data.text.survey import Survey, survey
from regard.errors import DataError, counted
from regard.runs.automatic_settings import replaced
from regard.runs.trained_items import SharedItems, TrainedItems, TrainedItemsRecorder
from regard.tasks.text_to_text.config import PairDataConfig, PairFiles
from regard.tasks.text_to_text.links import linked
from regard.tasks.text_to_text.mixture import PairMixture, parts_of, shown

FEW_PAIRS, FEW_HELD_OUT = 200, 20
MOST_LEARNED = 1_000_000
"""The most pairs from which sentencepiece learns pieces; of more, an even share."""
FEW_PIECES = 0.8
"""If less than this share of the suggested pieces could be learned, the data check reports it."""


@dataclass(frozen=True)
class PairReading:
    """What one pass over the training pairs and one over the held-out pairs have found.

    Args:
        trained: the record of the training items.
        shared: the held-out items that are trained on.
    """

    train: Survey
    dev: Survey
    trained: TrainedItems
    shared: SharedItems

    @classmethod
    def of(cls, train: Pairs, dev: Pairs, source: Field, target: Field) -> PairReading:
        """Reads the pairs with the units and normalisations of fields."""
        recorder = TrainedItemsRecorder(len(train))
        held_out = survey("dev", dev, source, target)
        trained = survey("train", train, source, target, observe=recorder.add)
        return cls(trained, held_out, recorder.result(), _shared(trained, held_out))

    def of_fields(self, source: Field, target: Field) -> PairReading:
        """With fields that are learned from it."""
        return replace(self, train=self.train.of(source, target), dev=self.dev.of(source, target))


@dataclass(frozen=True)
class PairTrainingData:
    """The data that a model is trained on.

    Args:
        config: the configuration of the data, in which no key is open.
        source, target: the fields of both sides, learned from the training pairs.
        chosen: values of open keys that follow from the pairs (the share that is held out, numbers of sentencepiece's
            pieces, units), by dotted key.
        first_reading: what was found when the pairs were read; `reading` reads them again if other pairs or fields
            have taken their place.
        mixture: how often pairs occur in an epoch; once if None.
        findings: those of `check`, if they are known.
    """

    config: PairDataConfig
    train: Pairs
    dev: Pairs
    source: Field
    target: Field
    chosen: Mapping[str, Any]
    first_reading: PairReading | None = None
    mixture: PairMixture | None = None
    findings: tuple[Finding, ...] | None = None

    @cached_property
    def reading(self) -> PairReading:
        """What one pass over the pairs finds."""
        first = self.first_reading
        if first is None or not first.train.reads_like(self.source, self.target):
            first = PairReading.of(self.train, self.dev, self.source, self.target)
        return first.of_fields(self.source, self.target)

    def check(self) -> Report:
        """Checks the pairs."""
        surveys = self.reading.train, self.reading.dev
        if self.findings is not None:
            return Report(self.findings, surveys[0])
        checked = report(surveys, max_length=self.config.max_length, autoencode=self.config.autoencode)
        return replace(checked, findings=(*checked.findings, *self._few()))

    def _few(self) -> Iterator[Finding]:
        """Findings about few pairs, and about texts with fewer pieces than suit their number."""
        yield from too_few(len(self.train), len(self.dev), "pair|pairs", least=(FEW_PAIRS, FEW_HELD_OUT))
        for name, field in (("source", self.source), ("target", self.target)):
            suggested = self.chosen.get(f"data.{name}.vocabulary_size", 0)
            learned = len(field.vocabulary.symbols)
            if learned < FEW_PIECES * suggested:
                text = (
                    f"{name}s have only {counted(learned, 'piece|pieces')} instead of {suggested:,}: they "
                    "have few or similar words"
                )
                yield Finding("info", text, learned)


def open_training_pairs(data: PairDataConfig, named: PairFiles) -> Pairs:
    """The pairs of the files that `data.train` or `data.dev` names."""
    options: dict[str, Any] = {
        "format": data.format,
        "source_field": data.source_field,
        "target_field": data.target_field,
        "autoencode": data.autoencode,
    }
    files = [open_pairs(part.files, **options) for part in parts_of(named)]
    return files[0] if len(files) == 1 else JoinedPairs(*files)


def read_pairs(data: PairDataConfig, *, are_alike: bool = False) -> PairTrainingData:
    """Opens the pairs and learns the field of each side, in one pass after those that sentencepiece needs.

    Args:
        are_alike: whether both sides need the same units, as with a pointer.

    Raises:
        ConfigError: for settings that contradict each other or the files.
        DataError: for files that cannot be read, or that have no pairs.
    """
    with uncollected():
        return _read(data, are_alike=are_alike)


@contextmanager
def uncollected() -> Iterator[None]:
    """Within the block Python does not look for cycles of objects, as it does again and again while lists of texts are
    made, which takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(data: PairDataConfig, *, are_alike: bool) -> PairTrainingData:
    pairs = open_training_pairs(data, data.train)
    if not len(pairs):
        raise DataError(f"{shown(data.train)}: the file has no pairs to train on.")
    chosen: dict[str, float] = {}
    if data.dev is not None:
        train, dev = pairs, open_training_pairs(data, data.dev)
    else:
        fraction = data.dev_fraction
        if fraction is None:
            fraction = chosen["data.dev_fraction"] = suggested_fraction(len(pairs))
        train, dev = hold_out(pairs, fraction, normalise=normalisation_of(data.source, data.num_columns))
        data = data.model_copy(update={"dev_fraction": fraction})
    if data.alignments is not None:
        train = linked(train, data.alignments)
    is_shared = data.joint_vocabulary or (data.autoencode and data.sides_are_alike)

    every = max(-(-len(train) // MOST_LEARNED), 1)

    def sources() -> Iterator[str]:
        """The texts from which the pieces of the source are learned: those of both sides if they are joint."""
        for sources, targets in train.parts():
            yield from sources[::every]
            if data.joint_vocabulary and not data.autoencode:
                yield from targets[::every]

    def targets() -> Iterator[str]:
        return chain.from_iterable(targets[::every] for _, targets in train.parts())

    options: dict[str, Any] = {"max_length": data.max_length}
    pieces = {}
    if number := open_pieces(data.source, sources(), every=every, **options):
        pieces["source"] = number
    if number := number if is_shared else open_pieces(data.target, targets(), every=every, **options):
        pieces["target"] = number
    sides = {
        name: getattr(data, name).model_copy(update={"vocabulary_size": number}) for name, number in pieces.items()
    }
    data = data.model_copy(update=sides)

    def read(data: PairDataConfig) -> tuple[Field, Field, PairReading]:
        source = Field.reader(data.source, sources(), name="source", num_columns=data.num_columns, **options)
        target = source if is_shared else Field.reader(data.target, targets(), name="target", **options)
        return source, target, PairReading.of(train, dev, source, target)

    source, target, reading = read(data)
    if letters := _letters(data, reading.train, are_alike=are_alike or is_shared):
        data = replaced(data, letters)
        source, target, reading = read(data)
    counts = [Counter(side.counts) for side in (reading.train.source, reading.train.target)]
    if data.joint_vocabulary and not data.autoencode:
        counts[0].update(counts[1])
    source = source.with_counts(counts[0], data.source, name="source")
    target = source if is_shared else target.with_counts(counts[1], data.target, name="target")
    used = reading.train.sizes.within(data.max_length)
    longest = [int(lengths.max(initial=1)) for lengths in (used.source, used.target)]
    source = replace(source, longest=max(longest) if is_shared else longest[0])
    target = source if is_shared else replace(target, longest=longest[1])
    return PairTrainingData(
        data,
        train,
        dev,
        source,
        target,
        {
            **chosen,
            **{f"data.{name}.vocabulary_size": number for name, number in pieces.items()},
            **{f"data.{key}": units for key, units in letters.items()},
        },
        reading,
        PairMixture.of(data, pairs, train),
    )


def _letters(data: PairDataConfig, train: Survey, *, are_alike: bool) -> dict[str, str]:
    """The units of sides whose units are not set and that have rare characters of few letters, by key below `data`."""
    is_open = {
        side: not is_set(data, (side.name, "units")) and getattr(data, side.name).unicode in COMPOSED_FORMS
        for side in (train.source, train.target)
    }
    divided = [side for side in is_open if is_open[side] and Composed.of(side)]
    if are_alike:
        divided = list(is_open) if divided and all(is_open.values()) else []
    return {f"{side.name}.units": "letter" for side in divided}


def _shared(train: Survey, dev: Survey) -> SharedItems:
    """The held-out pairs whose source, or source and target, are those of a training pair."""
    if not len(dev.pairs):
        return SharedItems(0, 0, (), 0, ())
    wanted = [np.concatenate(each) for each in zip(*(hashes for _, *hashes in dev.hashes()), strict=True)]
    known = [np.unique(hashes) for hashes in wanted]
    first = [np.full(len(hashes), -1, np.int64) for hashes in known]  # the first training pair with each
    for start, *both in train.hashes():
        for hashes, distinct, found in zip(both, known, first, strict=True):
            places = np.searchsorted(distinct, hashes)
            places[places == len(distinct)] = 0
            matching = np.flatnonzero(distinct[places] == hashes)
            here, earliest = np.unique(places[matching], return_index=True)
            is_new = found[here] < 0
            found[here[is_new]] = start + matching[earliest[is_new]]
    by_source, by_both = (
        found[np.searchsorted(distinct, hashes)] for found, distinct, hashes in zip(first, known, wanted, strict=True)
    )
    same, others = np.flatnonzero(by_both >= 0), np.flatnonzero((by_both < 0) & (by_source >= 0))

    def shown_places(rows: NDArray[np.int64], found: NDArray[np.int64], word: str) -> tuple[str, ...]:
        chosen = rows[:NUM_EXAMPLES].tolist()
        return tuple(f"{dev.pairs[i].place} {word} {train.pairs[int(found[i])].place}" for i in chosen)

    shown = shown_places(same, by_both, "is"), shown_places(others, by_source, "and")
    return SharedItems(len(dev.pairs), len(same), shown[0], len(others), shown[1])
