"""Checks of the symbols of one side."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator

from regard.data.columns import ColumnUnits
from regard.data.finding import NUM_EXAMPLES, Finding
from regard.data.pairs import shorten
from regard.data.pieces import BLANK, SentencePieceUnits
from regard.data.survey import Affix, SideSurvey, Survey
from regard.data.units import CharacterUnits
from regard.errors import counted

RARE = 10
"""A symbol that occurs less often than this is hardly learned."""
FEW_COMPOSED, COMPOSED_SHARE = 20, 0.01
"""Rare composed symbols are reported from this number and this share of all symbols of the texts."""
FEW_TEXTS = 10
"""Fewer texts than this may begin or end alike by chance."""
MANY_TEXTS = 1000
"""So many texts of the other side tell whether the sides are swapped: their symbols come again."""
DISTINCT_SHARE = 0.5
"""Texts of one symbol each are names rather than classes if at least this share of them is distinct."""


def symbols(split: Survey, side: SideSurvey, *, is_train: bool) -> Iterator[Finding]:
    """Findings about the symbols of a side.

    Args:
        split: the split of the side.
        side: the survey of the side.
        is_train: whether the field was learned from these texts.
    """
    yield from _unknown(split, side, is_train=is_train)
    if is_train:
        yield from _whole(split, side)
        yield from _once(split, side)
        yield from _composed(split, side)
        yield from _affix(split, side, side.prefix, "begins")
        yield from _affix(split, side, side.suffix, "ends")


def _unknown(split: Survey, side: SideSurvey, *, is_train: bool) -> Iterator[Finding]:
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
    yield Finding("info" if is_train else "warning", text, len(unknown), examples)


def _whole(split: Survey, side: SideSurvey) -> Iterator[Finding]:
    """Units that do not split the texts: every text is a single symbol, from which nothing can be learned."""
    count = len(side.lengths)
    if count < FEW_TEXTS or side.lengths.max() > 1 or len(side.counts) < DISTINCT_SHARE * count:
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
    """Symbols of which nothing can be learned; an inventory does not depend on the texts, so it is not checked."""
    vocabulary = side.field.vocabulary
    single = [symbol for symbol, count in side.counts.items() if count == 1 and symbol in vocabulary]
    if not single or side.field.units.inventory is not None:
        return
    text = counted(
        len(single), f"of {len(vocabulary.symbols):,} symbols of {split.name}'s {side.name}s occurs|occur only once"
    )
    examples = tuple(f"{shorten(symbol)} at {_place(split, side, symbol)}" for symbol in single[:NUM_EXAMPLES])
    yield Finding("info", text, len(single), examples)


def _composed(split: Survey, side: SideSurvey) -> Iterator[Finding]:
    """Scripts with many composed characters that consist of few others, such as Hangul syllables.

    NFD acts on each symbol separately, so the counts of the symbols are enough and no text is read again.
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
        return
    text = (
        f"{len(rare):,} composed symbols of {split.name}'s {side.name}s, {times:,} of {total:,}, occur fewer than "
        f"{RARE} times each; data.{side.name}.unicode=NFD splits them into {len(components):,} symbols, "
        f"{common:,} of which are common"
    )
    examples = tuple(f"{shorten(symbol)} at {_place(split, side, symbol)}" for symbol in rare[:NUM_EXAMPLES])
    yield Finding("warning", text, len(rare), examples)


def _components(character: str) -> str:
    return unicodedata.normalize("NFD", character)


def _characters(side: SideSurvey) -> Iterator[tuple[str, str]]:
    """The symbols of character units, each with its character."""
    units = side.field.units
    for symbol in side.counts:
        column, character = units.origin(symbol) if isinstance(units, ColumnUnits) else (units, symbol)
        if isinstance(column, CharacterUnits):
            yield symbol, character


def _affix(split: Survey, side: SideSurvey, affix: Affix, verb: str) -> Iterator[Finding]:
    if not affix.symbols or affix.num_texts < FEW_TEXTS:
        return
    if set(affix.symbols) == {BLANK} and isinstance(side.field.units, SentencePieceUnits):
        return  # sentencepiece adds a blank before every text, and here no piece joins it with a letter
    shown = " ".join(map(repr, affix.symbols[:NUM_EXAMPLES])) + " …" * (len(affix.symbols) > NUM_EXAMPLES)
    text = f"every {side.name} of {split.name} {verb} with {shown}, which carries no information"
    if side.name == "source":
        text += "; attention often rests on such symbols. Remove them from the file if they mean nothing"
    yield Finding("warning" if side.name == "source" else "info", text, affix.num_texts)


def _place(split: Survey, side: SideSurvey, symbol: str) -> str:
    return split.pairs.read(side.first[symbol]).place_of(side.name)
