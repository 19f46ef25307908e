"""Checks of the data before a model is trained on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.data.field import Field
from regard.data.finding import NUM_EXAMPLES, Finding, Findings, Severity, by_severity
from regard.data.pairs import Pair, Pairs, shorten
from regard.data.survey import Survey, survey
from regard.data.symbols import symbols
from regard.data.text_file import suffix_of
from regard.errors import counted

EXTREME_RATIO = 5.0
"""The ratio of target to source length is extreme from this factor above or below the split's median."""
SLACK = 4
"""Symbols added to both lengths before the ratio is taken, so that short pairs are not extreme by chance."""


@dataclass(frozen=True, slots=True)
class Report(Findings):
    """All findings about pairs, the most severe first.

    Args:
        findings: errors, warnings and information about the data.
        train: the survey of the training pairs.
    """

    train: Survey


def check(
    train: Pairs,
    dev: Pairs | None,
    source: Field,
    target: Field,
    *,
    max_length: int | None = None,
    autoencode: bool = False,
) -> Report:
    """Reads each split once and reports what looks wrong.

    Texts are compared after normalisation, by 64-bit hashes.

    Args:
        dev: held-out pairs, or None.
        source: the sources' field, built on the training pairs.
        max_length: training leaves out pairs with more symbols than this on either side.
        autoencode: whether targets are meant to equal their sources.
    """
    splits = [survey("train", train, source, target)]
    if dev is not None:
        splits.append(survey("dev", dev, source, target))
    findings: list[Finding] = []
    for split in splits:
        findings += _sizes(split)
        if len(split.pairs):
            if split is splits[0] or split.pairs.read(0).file != splits[0].pairs.read(0).file:
                findings += _heading(split)
            findings += _empty(split)
            findings += _long(split, max_length)
            findings += _ratios(split)
            findings += _repeated(split)
            for side in (split.source, split.target):
                findings += symbols(split, side, is_train=split.name == "train")
            findings += [] if autoencode else _equal(split)
    return Report(by_severity(findings), splits[0])


def _sizes(split: Survey) -> Iterator[Finding]:
    count = len(split.pairs)
    if not count:
        yield Finding("error", f"{split.name} has no pairs", 0)
        return
    ranges = (
        f"{side.name} {side.lengths.min():,} to {side.lengths.max():,} symbols, median {np.median(side.lengths):,.0f}"
        for side in (split.source, split.target)
    )
    yield Finding("info", f"{split.name} has {counted(count, 'pair|pairs')}; {'; '.join(ranges)}", count)
    if blank := split.pairs.num_blank:
        yield Finding("info", f"{split.name} has {counted(blank, 'blank line|lines, which is|are skipped')}", blank)


def _heading(split: Survey) -> Iterator[Finding]:
    """Whether the first line of a table names its columns; in CSV files it mostly does."""
    if names := ", ".join(split.pairs.heading):
        yield Finding("info", f"the first line of {split.name} names the columns ({names}) and is no pair", 1)
        return
    first = split.pairs.read(0)
    if suffix_of(first.file) == ".csv" and first.line == 1:
        pair = f"{shorten(first.source)}, {shorten(first.target)}"
        text = (
            f"the first line of {split.name} is taken for a pair ({pair}); if it names the columns, choose them by "
            "their names (data.source_field, data.target_field)"
        )
        yield Finding("warning", text, 1, (first.place,))


def _empty(split: Survey) -> Iterator[Finding]:
    for side in (split.source, split.target):
        empty = np.flatnonzero(side.lengths == 0)
        if len(empty) == len(side.lengths):
            yield Finding("error", f"all {len(empty):,} {side.name}s of {split.name} are empty", len(empty))
        else:
            text = "of {name}'s " + side.name + "s is|are empty"
            yield from _findings("warning", text, split, empty, side=side.name)


def _long(split: Survey, max_length: int | None) -> Iterator[Finding]:
    longest = np.maximum(split.source.lengths, split.target.lengths)
    long = np.flatnonzero(longest > (max_length or longest.max()))
    severity: Severity = "error" if len(long) == len(longest) else "warning"
    text = "of {name}'s pairs is|are longer than max_length=" + f"{max_length} and left out"
    yield from _findings(severity, text, split, long, lambda i: f" has {longest[i]:,}")


def _ratios(split: Survey) -> Iterator[Finding]:
    source, target = split.source.lengths, split.target.lengths
    ratio = np.log(target + SLACK) - np.log(source + SLACK)
    is_extreme = np.abs(ratio - np.median(ratio)) > np.log(EXTREME_RATIO)
    extreme = np.flatnonzero(is_extreme & (source > 0) & (target > 0))
    text = "of {name}'s pairs has|have an extreme ratio of lengths"
    yield from _findings("warning", text, split, extreme, lambda i: f" {source[i]:,} to {target[i]:,}")


def _repeated(split: Survey) -> Iterator[Finding]:
    first, inverse = _first(split.hashes)
    earlier = first[inverse]
    repeated = np.flatnonzero(earlier != np.arange(len(earlier)))
    text = "of {name}'s pairs repeats|repeat an earlier pair"
    yield from _findings("warning", text, split, repeated, lambda i: f" repeats line {_pair(split, earlier[i]).line}")
    extra = len(first) - len(np.unique(split.source.hashes))
    if extra:
        text = counted(
            extra, f"of {split.name}'s distinct pairs gives|give another target for a source that has one already"
        )
        yield Finding("info", text, extra)


def _equal(split: Survey) -> Iterator[Finding]:
    equal = np.flatnonzero((split.source.hashes == split.target.hashes) & (split.source.lengths > 0))
    yield from _findings("info", "of {name}'s targets equals|equal its|their source|sources", split, equal)


def _first(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first index of each distinct hash, and for each index the position of its hash among the distinct ones."""
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    return first, inverse


def _pair(split: Survey, index: int) -> Pair:
    return split.pairs.read(int(index))


def _findings(
    severity: Severity,
    text: str,
    split: Survey,
    indices: NDArray[np.int64],
    describe: Callable[[int], str] = lambda i: "",
    *,
    side: str = "source",
) -> Iterator[Finding]:
    """A finding about the pairs of these indices, or one side of them, if there are any."""
    if not len(indices):
        return
    shown = tuple(_pair(split, i).place_of(side) + describe(i) for i in indices[:NUM_EXAMPLES].tolist())
    yield Finding(severity, counted(len(indices), text.format(name=split.name)), len(indices), shown)
