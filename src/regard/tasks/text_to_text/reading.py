"""The pairs of a configuration, and the fields that are learned from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.data import Finding, Pairs
from regard.data.finding import too_few
from regard.data.split import hold_out, suggested_fraction
from regard.data.text import Field, Report, check, open_pairs
from regard.data.text.field import normalisation_of, open_pieces
from regard.errors import DataError, counted
from regard.tasks.text_to_text.config import PairDataConfig
from regard.tasks.text_to_text.links import linked

FEW_PAIRS, FEW_HELD_OUT = 200, 20
FEW_PIECES = 0.8
"""If less than this share of the suggested pieces could be learned, the data check reports it."""


@dataclass(frozen=True, slots=True)
class PairTrainingData:
    """The data that a model is trained on.

    Args:
        config: the configuration of the data, in which no key is open.
        source, target: the fields of both sides, learned from the training pairs.
        chosen: values of open keys that follow from the pairs (the share that is held out, numbers of sentencepiece's
            pieces), by dotted key.
    """

    config: PairDataConfig
    train: Pairs
    dev: Pairs
    source: Field
    target: Field
    chosen: Mapping[str, float]

    def check(self) -> Report:
        """Checks the pairs."""
        report = check(
            self.train,
            self.dev,
            self.source,
            self.target,
            max_length=self.config.max_length,
            autoencode=self.config.autoencode,
        )
        return replace(report, findings=(*report.findings, *self._few()))

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


def read_data(data: PairDataConfig) -> PairTrainingData:
    """Opens the pairs and learns the field of each side in one pass, or two if the number of its pieces is open.

    Raises:
        ConfigError: for settings that contradict each other or the files.
        DataError: for files that cannot be read, or that have no pairs.
    """
    options: dict[str, Any] = {
        "format": data.format,
        "source_field": data.source_field,
        "target_field": data.target_field,
        "autoencode": data.autoencode,
    }
    pairs = open_pairs(data.train, **options)
    if not len(pairs):
        raise DataError(f"{data.train}: the file has no pairs to train on.")
    chosen: dict[str, float] = {}
    if data.dev is not None:
        train, dev = pairs, open_pairs(data.dev, **options)
    else:
        fraction = data.dev_fraction
        if fraction is None:
            fraction = chosen["data.dev_fraction"] = suggested_fraction(len(pairs))
        train, dev = hold_out(pairs, fraction, normalise=normalisation_of(data.source, data.num_columns))
        data = data.model_copy(update={"dev_fraction": fraction})
    if data.alignments is not None:
        train = linked(train, data.alignments)
    is_shared = data.joint_vocabulary or (data.autoencode and data.sides_are_alike)

    def sources() -> Iterator[str]:
        """The texts from which the symbols of the source are learned: both sides if they are joint."""
        for pair in train:
            yield pair.source
            if data.joint_vocabulary and not data.autoencode:
                yield pair.target

    pieces = {}
    if number := open_pieces(data.source, sources(), max_length=data.max_length):
        pieces["source"] = number
    targets = (pair.target for pair in train)
    if number := number if is_shared else open_pieces(data.target, targets, max_length=data.max_length):
        pieces["target"] = number
    sides = {
        name: getattr(data, name).model_copy(update={"vocabulary_size": number}) for name, number in pieces.items()
    }
    data = data.model_copy(update=sides)
    source = Field.build(
        data.source,
        sources(),
        name="source",
        num_columns=data.num_columns,
        max_length=data.max_length,
    )
    target = source
    if not is_shared:
        targets = (pair.target for pair in train)
        target = Field.build(data.target, targets, name="target", max_length=data.max_length)
    return PairTrainingData(
        data,
        train,
        dev,
        source,
        target,
        chosen | {f"data.{name}.vocabulary_size": number for name, number in pieces.items()},
    )
