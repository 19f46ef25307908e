"""Copying from the source: the extended ids of training pairs, and checks of a pointer's configuration."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regard.data import Finding, Pair
from regard.data.text import EOS, ExtendedVocabulary, Extension, Report
from regard.data.text.extended import UNCOPYABLE, comparable
from regard.errors import ConfigError
from regard.tasks.encoded import EncodedIds, pad
from regard.tasks.text_to_text.config import TextToTextConfig

KEY_PATH = ("model", "pointer")


class PointerSources:
    """The sources and targets of training pairs in the extended ids by which a pointer copies.

    Args:
        pairs: read once.
        is_reversed: whether the last symbol of a target comes first.
    """

    def __init__(self, pairs: Iterable[Pair], vocabulary: ExtendedVocabulary, *, is_reversed: bool = False) -> None:
        counts, step = array("q"), -1 if is_reversed else 1

        def sequences() -> Iterator[NDArray[np.int64]]:
            for pair in pairs:
                extension = vocabulary.extend(pair.source)
                counts.append(len(extension.symbols))
                yield extension.ids
                yield vocabulary.ids(vocabulary.target.split(pair.target), extension)[::step]

        self.ids = EncodedIds.of(sequences(), np.int32)  # of a pair first the source, then the target
        self.counts = np.frombuffer(counts, np.int64)

    def pad(self, indices: ArrayLike) -> dict[str, Tensor]:
        """`source_ids` (B, S) and `extension` (B, X) of `Encoded`, and `targets` (B, T), of some pairs."""
        chosen = np.asarray(indices, dtype=np.int64)
        sources, _ = self.ids.pad(2 * chosen, end=UNCOPYABLE)
        targets, _ = self.ids.pad(2 * chosen + 1, end=EOS)
        return {"source_ids": sources, "extension": _extension_mask(self.counts[chosen]), "targets": targets}


def padded(extensions: Sequence[Extension]) -> dict[str, Tensor]:
    """`source_ids` (B, S) and `extension` (B, X) of `Encoded`; the end symbol of a source cannot be copied."""
    ids, _ = pad([extension.ids for extension in extensions], end=UNCOPYABLE)
    counts = np.array([len(extension.symbols) for extension in extensions], dtype=np.int64)
    return {"source_ids": ids, "extension": _extension_mask(counts)}


def check_pointer(config: TextToTextConfig) -> None:
    """Refuses a pointer that cannot copy, or settings that contradict it."""
    model = config.model
    if model.pointer is None:
        return
    if config.training.label_smoothing_others:
        raise ConfigError(
            "label_smoothing_others has no meaning with a pointer, whose symbols differ between inputs; leave it out",
            ("training", "label_smoothing_others"),
        )
    if model.attention is None:
        raise ConfigError("a pointer copies by attention; set model.attention, or leave it out", KEY_PATH)
    if not config.data.source_end:
        raise ConfigError(
            "a pointer reads inputs with an end symbol, which it never copies; set data.source_end: true, or leave it "
            "out",
            KEY_PATH,
        )
    if config.data.source_begin:
        raise ConfigError("a pointer reads inputs without a begin symbol; leave data.source_begin out", KEY_PATH)
    source, target = config.data.source.units, config.data.target.units
    sources, targets = ((units,) if isinstance(units, str) else units for units in (source, target))
    if not any(comparable(one, targets[0]) for one in sources):
        raise ConfigError(
            f"a pointer copies symbols of the input, but symbols of units {' and '.join(sources)} are none of units "
            f"{targets[0]}; give data.source.units and data.target.units the same value, or leave it out",
            KEY_PATH,
        )
    if config.training.compile:
        raise ConfigError("a pointer is not compiled; leave out either training.compile or model.pointer", KEY_PATH)


def findings(report: Report) -> Iterator[Finding]:
    """A warning if training has no unknown symbol that the pointer could learn to copy."""
    if not report.train.target.unknown:
        text = (
            "no symbol of the training outputs is unknown, so the pointer does not learn to copy symbols that the "
            "vocabulary lacks; data.source.min_count=2 and data.target.min_count=2 make symbols unknown that occur once"
        )
        yield Finding("warning", text, 1)


def _extension_mask(counts: NDArray[np.int64]) -> Tensor:
    """(B, X), True at the extended ids of each source."""
    return torch.from_numpy(np.arange(counts.max(initial=0)) < counts[:, None])
