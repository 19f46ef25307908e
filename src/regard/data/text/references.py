"""Items of an evaluation: sources with one or several references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.lines import Lines, check_parallel
from regard.data.pairs import Pair


@dataclass(frozen=True, slots=True)
class Item:
    """A source with all its references.

    Args:
        source: the raw source of its first line.
        references: the raw targets, distinct after normalisation, in order of occurrence.
        lines: the line number of each reference.
    """

    source: str
    references: tuple[str, ...]
    lines: tuple[int, ...]
    file: Path

    @property
    def place(self) -> str:
        """File and line of the first reference, for messages."""
        return f"{self.file}:{self.lines[0]}"


def parallel(
    source: Path | str, targets: Sequence[Path | str], *, normalise_target: Callable[[str], str] = str
) -> list[Item]:
    """One item per line: line n of the source with line n of every target as its references.

    Unlike in `group`, equal sources are separate items, as in BLEU.

    Raises:
        DataError: if the numbers of lines differ.
    """
    sources = Lines(source)
    files = [Lines(target) for target in targets]
    check_parallel(sources, *files)
    items = []
    for index, text in enumerate(sources):
        distinct = {normalise_target(reference): reference for reference in reversed([file[index] for file in files])}
        items.append(Item(text, tuple(reversed(distinct.values())), (index + 1,) * len(distinct), sources.path))
    return items


def group(
    pairs: Iterable[Pair],
    *,
    normalise_source: Callable[[str], str] = str,
    normalise_target: Callable[[str], str] = str,
) -> list[Item]:
    """Groups pairs by their normalised source, in order of first occurrence.

    Args:
        pairs: the pairs of one file.
        normalise_source: sources are equal if this maps them to the same text (a field's `normalisation`).
        normalise_target: references are equal if this maps them to the same text.
    """
    groups: dict[str, dict[str, Pair]] = {}
    for pair in pairs:
        groups.setdefault(normalise_source(pair.source), {}).setdefault(normalise_target(pair.target), pair)
    items = []
    for references in groups.values():
        distinct = list(references.values())
        first = distinct[0]
        items.append(Item(first.source, tuple(p.target for p in distinct), tuple(p.line for p in distinct), first.file))
    return items
