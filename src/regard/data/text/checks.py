"""Checks of pairs of texts before training."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.finding import NUM_EXAMPLES, Finding, Findings, Severity, by_severity
from regard.data.growing_array import blocks
from regard.data.pairs import Pairs, shorten
from regard.data.text.columns import ColumnUnits
from regard.data.text.field import Field
from regard.data.text.pieces import BLANK, SentencePieceUnits
from regard.data.text.survey import Affix, SideSurvey, Survey, survey
from regard.data.text.units import CharacterUnits
from regard.data.text_file import suffix_of
from regard.errors import counted

EXTREME_RATIO = 5.0
"""The factor above or below the split's median from which a ratio of target to source length is extreme."""
MOST_SORTED = 1 << 21
"""The most pairs that are sorted at once."""
SLACK = 4
"""Symbols added to both lengths before the division, so that short pairs are not extreme by chance."""


@dataclass(frozen=True, slots=True)
class Report(Findings):
    """All findings about pairs, the most severe first, with the survey of the training pairs."""

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
    """Reads each split once and reports suspicious pairs.

    Texts are compared after normalisation, by 64-bit hashes.

    Args:
        dev: held-out pairs, or None.
        source, target: the fields of both sides, built on the training pairs.
        max_length: training leaves out pairs with more symbols on either side.
        autoencode: whether targets equal their sources by intention.
    """
    splits = [survey("train", train, source, target)]
    if dev is not None:
        splits.append(survey("dev", dev, source, target))
    return report(splits, max_length=max_length, autoencode=autoencode)


def report(splits: Sequence[Survey], *, max_length: int | None = None, autoencode: bool = False) -> Report:
    """As `check`, of the surveys of the training pairs and of held-out ones."""
    findings: list[Finding] = []
    for split in splits:
        findings += _sizes(split)
        if len(split.pairs):
            if split is splits[0] or split.pairs.read(0).file != splits[0].pairs.read(0).file:
                findings += _heading(split)
            findings += _empty(split)
            findings += _long(split, max_length)
            findings += _ratios(split)
            findings += by_hash(split, autoencode=autoencode)
            for side in (split.source, split.target):
                findings += _unknown(split, side)
                if split is splits[0]:
                    findings += [*_whole(split, side), *_once(split, side), *_composed(split, side)]
                    findings += [*_affix(split, side, side.prefix, "begins"), *_affix(split, side, side.suffix, "ends")]
    return Report(by_severity(findings), splits[0])


def by_hash(split: Survey, *, autoencode: bool) -> Sequence[Finding]:
    """The findings about equal texts."""
    if split.by_hash is not None:
        return split.by_hash
    return [*_repeated(split), *([] if autoencode else _equal(split))]


def _sizes(split: Survey) -> Iterator[Finding]:
    count, sizes = len(split.pairs), split.sizes
    if not count:
        yield Finding("error", f"{split.name} has no pairs", 0)
        return
    ranges = (
        f"{name} {lengths.min():,} to {lengths.max():,} symbols, median {sizes.median(lengths):,.0f}"
        for name, lengths in (("source", sizes.source), ("target", sizes.target))
    )
    yield Finding("info", f"{split.name} has {counted(count, 'pair|pairs')}; {'; '.join(ranges)}", count)
    if blank := split.pairs.num_blank:
        yield Finding("info", f"{split.name} has {counted(blank, 'blank line|lines, which is|are skipped')}", blank)


def _heading(split: Survey) -> Iterator[Finding]:
    """A header, or the first line of a CSV file that may be one; and whether the file has more columns."""
    if number := split.pairs.num_columns:
        text = (
            f"{split.name} has {number} columns, of which the first is the input and the second the output; if others "
            "are, choose them (data.source_field, data.target_field)"
        )
        yield Finding("warning", text, number)
    if names := ", ".join(split.pairs.heading):
        yield Finding("info", f"the first line of {split.name} names the columns ({names}) and is not a pair", 1)
        return
    first = split.pairs.read(0)
    if suffix_of(first.file) == ".csv" and first.line == 1:
        pair = f"{shorten(first.source)}, {shorten(first.target)}"
        text = (
            f"the first line of {split.name} is read as a pair ({pair}); if it names the columns, choose them by "
            "their names (data.source_field, data.target_field)"
        )
        yield Finding("warning", text, 1, (first.place,))


def _empty(split: Survey) -> Iterator[Finding]:
    for side in ("source", "target"):
        empty = _Chosen.of(split, partial(_is_empty, side))
        if empty.count == len(split.pairs):
            yield Finding("error", f"all {empty.count:,} {side}s of {split.name} are empty", empty.count)
        else:
            text = "of {name}'s " + side + "s is|are empty"
            yield from _findings("warning", text, split, empty, side=side)


def _is_empty(side: str, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (source if side == "source" else target) == 0


def _long(split: Survey, max_length: int | None) -> Iterator[Finding]:
    if max_length is None:
        return
    long = _Chosen.of(split, lambda source, target: np.maximum(source, target) > max_length)
    severity: Severity = "error" if long.count == len(split.pairs) else "warning"
    text = "of {name}'s pairs is|are longer than max_length=" + f"{max_length} and left out"
    yield from _findings(severity, text, split, long, lambda i: f" has {max(_lengths(split, i)):,}")


def _ratios(split: Survey) -> Iterator[Finding]:
    def ratio(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.log(target + SLACK) - np.log(source + SLACK)

    median = split.sizes.median(ratio(split.sizes.source, split.sizes.target))

    def is_extreme(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.bool_]:
        is_far = np.abs(ratio(source, target) - median) > np.log(EXTREME_RATIO)
        return is_far & (source > 0) & (target > 0)

    def shown(i: int) -> str:
        source, target = _lengths(split, i)
        return f" {source:,} to {target:,}"

    text = "of {name}'s pairs has|have an extreme ratio of lengths"
    yield from _findings("warning", text, split, _Chosen.of(split, is_extreme), shown)


def _repeated(split: Survey) -> Iterator[Finding]:
    earlier, count, sources = dict[int, int](), 0, 0
    num_parts = -(-len(split.pairs) // MOST_SORTED)
    for part in range(num_parts):
        rows, of_sources, of_pairs = _part_of(split, part, num_parts)
        order = np.argsort(of_pairs, kind="stable")
        again = np.sort(order[1:][of_pairs[order[1:]] == of_pairs[order[:-1]]])
        count += len(again)
        of_sources.sort()
        sources += int((of_sources[1:] != of_sources[:-1]).sum()) + 1
        earlier |= {int(rows[i]): int(rows[(of_pairs == of_pairs[i]).argmax()]) for i in again[:NUM_EXAMPLES]}
    repeated = _Chosen(count, tuple(sorted(earlier)[:NUM_EXAMPLES]))
    text = "of {name}'s pairs repeats|repeat an earlier pair"

    def line(index: int) -> str:
        pair, other = split.pairs.read(index), split.pairs.read(earlier[index])
        return f"line {other.line}" if pair.file == other.file else other.place

    yield from _findings("warning", text, split, repeated, lambda i: f" repeats {line(i)}")
    extra = len(split.pairs) - count - sources
    if extra:
        text = counted(
            extra, f"of {split.name}'s distinct pairs gives|give another target for a source that has one already"
        )
        yield Finding("info", text, extra)


def _equal(split: Survey) -> Iterator[Finding]:
    def is_equal(source: NDArray[Any], target: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.bool_]:
        equal: NDArray[np.bool_] = (source == target) & (lengths > 0)
        return equal

    equal = _Chosen.by_block(is_equal, split.source.hashes, split.target.hashes, split.source.lengths)
    yield from _findings("info", "of {name}'s targets equals|equal its|their source|sources", split, equal)


def _part_of(
    split: Survey, part: int, num_parts: int
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Of the pairs of one of several parts, which have all pairs of a source, the indices and the hashes of both."""
    rows, of_sources, of_pairs = [], [], []
    for start, sources, pairs in split.hashes():
        chosen = np.flatnonzero((sources >> np.uint64(32)) % np.uint64(num_parts) == part)
        rows.append(start + chosen)
        of_sources.append(sources[chosen])
        of_pairs.append(pairs[chosen])
    return np.concatenate(rows), np.concatenate(of_sources), np.concatenate(of_pairs)


def _lengths(split: Survey, index: int) -> tuple[int, int]:
    return int(split.source.lengths[index]), int(split.target.lengths[index])


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The number of some pairs, and the indices of the first of them."""

    count: int
    first: tuple[int, ...]

    @classmethod
    def of(cls, split: Survey, choose: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]) -> _Chosen:
        """The pairs that are chosen by the lengths of their sources and targets."""
        if not choose(split.sizes.source, split.sizes.target).any():
            return cls(0, ())
        lengths = split.source.lengths, split.target.lengths
        return cls.by_block(lambda *sides: choose(*(side.astype(np.int64) for side in sides)), *lengths)

    @classmethod
    def by_block(cls, choose: Callable[..., NDArray[np.bool_]], *arrays: NDArray[Any]) -> _Chosen:
        """The pairs that are chosen by some arrays."""
        count, first = 0, list[int]()
        for start, parts in blocks(*arrays):
            chosen = np.flatnonzero(choose(*parts))
            first += (start + chosen[: NUM_EXAMPLES - len(first)]).tolist()
            count += len(chosen)
        return cls(count, tuple(first))


def _findings(
    severity: Severity,
    text: str,
    split: Survey,
    chosen: _Chosen,
    describe: Callable[[int], str] = lambda i: "",
    *,
    side: str = "source",
) -> Iterator[Finding]:
    """A finding about some pairs, or about one side of them, unless there are none."""
    if chosen.count:
        shown = tuple(split.pairs.read(i).place_of(side) + describe(i) for i in chosen.first)
        yield Finding(severity, counted(chosen.count, text.format(name=split.name)), chosen.count, shown)


RARE = 10
"""The count below which a symbol is rare."""
FEW_COMPOSED, COMPOSED_SHARE = 20, 0.01
"""The number of rare composed symbols, and their share of all symbols of the texts, from which they are reported."""
FEW_TEXTS = 10
"""The number of texts below which a common prefix or suffix may be chance."""
MANY_TEXTS = 1000
"""The number of texts of the other side that are read to see whether the sides are swapped."""
DISTINCT_SHARE = 0.5
"""The share of distinct texts from which texts of one symbol each are names rather than classes."""


def _unknown(split: Survey, side: SideSurvey) -> Iterator[Finding]:
    unknown = side.unknown
    if not unknown:
        return
    total = sum(side.counts[symbol] for symbol in unknown)
    text = (
        f"{split.name}'s {side.name}s have symbols that are not in the vocabulary of the training pairs: "
        f"{len(unknown):,} distinct, {total:,} in all"
    )
    examples = tuple(
        f"{shorten(symbol)} {side.counts[symbol]:,}×, first at {_place(split, side, symbol)}"
        for symbol in unknown[:NUM_EXAMPLES]
    )
    yield Finding("info" if split.name == "train" else "warning", text, len(unknown), examples)


def _whole(split: Survey, side: SideSurvey) -> Iterator[Finding]:
    """Units that do not split the texts, so that every text is a single symbol and nothing can be learned."""
    count = len(side.lengths)
    longest = getattr(split.sizes, side.name).max(initial=0)
    if count < FEW_TEXTS or longest > 1 or len(side.counts) < DISTINCT_SHARE * count:
        return
    if max(map(len, side.counts)) < 2:
        return
    text = f"every {side.name} of {split.name} is a single symbol, and {len(side.counts):,} of {count:,} are distinct: "
    others = [getattr(pair, split.other(side).name) for pair in split.pairs[:MANY_TEXTS]]
    split_others = [side.field.units.split(other) for other in others]
    if len(set().union(*split_others)) < len(others) < sum(map(len, split_others)) / 2:
        keys = "data.source_field and data.target_field"
        yield Finding("error", f"{text}inputs and outputs seem to be swapped; choose their columns by {keys}", count)
        return
    yield Finding("warning", f"{text}the units do not split the texts; data.{side.name}.units=character does", count)


def _once(split: Survey, side: SideSurvey) -> Iterator[Finding]:
    """Symbols that occur once, unless the units have a fixed inventory."""
    vocabulary = side.field.vocabulary
    single = [symbol for symbol, count in side.counts.items() if count == 1 and symbol in vocabulary]
    if not single or side.field.units.inventory is not None:
        return
    text = counted(
        len(single), f"of {len(vocabulary.symbols):,} symbols of {split.name}'s {side.name}s occurs|occur only once"
    )
    examples = tuple(f"{shorten(symbol)} at {_place(split, side, symbol)}" for symbol in single[:NUM_EXAMPLES])
    yield Finding("info", text, len(single), examples)


@dataclass(frozen=True, slots=True)
class Composed:
    """Rare characters of a side that are composed of few components, such as Hangul syllables.

    Args:
        symbols: the symbols with these characters.
        times, total: occurrences of these symbols, and of all symbols of characters.
        components, common: the number of distinct components, and of those that are not rare.
    """

    symbols: tuple[str, ...]
    times: int
    total: int
    components: int
    common: int

    @classmethod
    def of(cls, side: SideSurvey) -> Composed | None:
        """None if there are few, or if they have many components.

        Each symbol is decomposed separately, so the counts of the symbols suffice.
        """
        characters = dict(_characters(side))
        counts = {symbol: side.counts[symbol] for symbol in characters}
        total = sum(counts.values())
        decomposed: Counter[str] = Counter()
        for symbol, count in counts.items():
            for component in _components(characters[symbol]):
                decomposed[component] += count
        rare = [s for s, count in counts.items() if count < RARE and _components(characters[s]) != characters[s]]
        components = {component for symbol in rare for component in _components(characters[symbol])}
        common = sum(decomposed[component] >= RARE for component in components)
        times = sum(counts[symbol] for symbol in rare)
        if len(rare) < FEW_COMPOSED or times < COMPOSED_SHARE * total or 2 * len(components) > len(rare):
            return None
        return cls(tuple(rare), times, total, len(components), common)


def _composed(split: Survey, side: SideSurvey) -> Iterator[Finding]:
    found = Composed.of(side)
    if found is None:
        return
    text = (
        f"{len(found.symbols):,} composed symbols of {split.name}'s {side.name}s, {found.times:,} of {found.total:,}, "
        f"occur fewer than {RARE} times each; units `letter` (data.{side.name}.units) split them into "
        f"{found.components:,} symbols, {found.common:,} of which are common"
    )
    examples = tuple(f"{shorten(symbol)} at {_place(split, side, symbol)}" for symbol in found.symbols[:NUM_EXAMPLES])
    yield Finding("warning", text, len(found.symbols), examples)


def _components(character: str) -> str:
    return unicodedata.normalize("NFD", character)


def _characters(side: SideSurvey) -> Iterator[tuple[str, str]]:
    """The symbols of character units, each with its character."""
    units = side.field.units
    for symbol in side.counts:
        column, character = units.origin(symbol) if isinstance(units, ColumnUnits) else (units, symbol)
        if isinstance(column, CharacterUnits):
            yield symbol, character


def _affix(split: Survey, side: SideSurvey, affix: Affix, predicate: str) -> Iterator[Finding]:
    if not affix.symbols or affix.num_texts < FEW_TEXTS:
        return
    if set(affix.symbols) == {BLANK} and isinstance(side.field.units, SentencePieceUnits):
        return  # sentencepiece adds a blank before every text
    shown = " ".join(map(repr, affix.symbols[:NUM_EXAMPLES])) + " …" * (len(affix.symbols) > NUM_EXAMPLES)
    text = f"every {side.name} of {split.name} {predicate} with {shown}, which carries no information"
    if side.name == "source":
        text += "; attention often rests on such symbols. Remove them from the file if they mean nothing"
    yield Finding("warning" if side.name == "source" else "info", text, affix.num_texts)


def _place(split: Survey, side: SideSurvey, symbol: str) -> str:
    return split.pairs.read(side.first[symbol]).place_of(side.name)
