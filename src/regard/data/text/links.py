"""Word alignments: links between the words of pairs, their files and error rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.errors import DataError

Link = tuple[int, int]
"""The numbers of a source word and a target word, both from 0."""
LINK = re.compile(r"(\d{1,9})([-?pP])(\d{1,9})")
NUMBERED = re.compile(r"\s*(\d{1,7})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[\d.]+)?\s*")
NONE: frozenset[Link] = frozenset()


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a pair.

    Args:
        sure: links that an alignment needs.
        possible: further links that are not errors.
    """

    sure: frozenset[Link] = NONE
    possible: frozenset[Link] = NONE

    def __str__(self) -> str:
        marked = [*((link, "-") for link in self.sure), *((link, "?") for link in self.possible - self.sure)]
        return " ".join(f"{source}{mark}{target}" for (source, target), mark in sorted(marked))


def parse_links(text: str, *, place: str = "links", first: int = 0) -> Links:
    """The links of a line `0-0 1-2 2?3`: source and target, with `-` for sure and `?` or `p` for possible links.

    Args:
        text: the line; empty for no links.
        place: file and line, for messages.
        first: the number of the first word: 0, or 1 in some files.

    Raises:
        DataError: for any other text.

    >>> parse_links("0-0 1?2") == Links(frozenset({(0, 0)}), frozenset({(1, 2)}))
    True
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for word in text.split():
        match = LINK.fullmatch(word)
        if match is None:
            raise DataError(f"{place}: expected links such as 0-0 1-2, or 1?2 for a possible one; got {shorten(word)}.")
        link = int(match[1]) - first, int(match[3]) - first
        if min(link) < 0:
            raise DataError(f"{place}: the link {word} has a number below {first}, the number of the first word.")
        (sure if match[2] == "-" else possible).add(link)
    return Links(frozenset(sure), frozenset(possible))


def read_links(path: Path | str, *, first: int = 0, num_pairs: int | None = None) -> list[Links]:
    """The links of a file with one line for each pair, or of a file with one link per line.

    The second format is `pair source target S` (or `P` for possible), counted from 1, as in the shared tasks of 2003
    and 2005; further numbers in a line are ignored.

    Args:
        first: as in `parse_links`, for the first format.
        num_pairs: the number of pairs, for the second format; up to the last link if None.

    Raises:
        DataError: for a file that cannot be read, or a line in neither format.
    """
    lines = Lines(path)
    if len(lines) and NUMBERED.fullmatch(next((line for line in lines if line.strip()), "")):
        return _numbered(lines, num_pairs)
    return [parse_links(line, place=f"{path}:{number}", first=first) for number, line in enumerate(lines, start=1)]


def _numbered(lines: Lines, num_pairs: int | None) -> list[Links]:
    sure: dict[int, set[Link]] = {}
    possible: dict[int, set[Link]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        match = NUMBERED.fullmatch(line)
        if match is None or 0 in map(int, match.group(1, 2, 3)):
            raise DataError(
                f"{lines.path}:{number}: expected `pair source output S`, counted from 1; got {shorten(line)}."
            )
        kind = possible if match[4] == "P" else sure
        kind.setdefault(int(match[1]), set()).add((int(match[2]) - 1, int(match[3]) - 1))
    last = max((*sure, *possible), default=0) if num_pairs is None else num_pairs
    return [Links(frozenset(sure.get(n, ())), frozenset(possible.get(n, ()))) for n in range(1, last + 1)]


@dataclass(frozen=True, slots=True)
class AlignmentErrors:
    """The agreement of links with a reference, over all pairs together. NaN if a denominator is 0.

    Args:
        precision: |A ∩ P| / |A|, with A the links, S the sure ones of the reference and P its sure and possible ones.
        recall: |A ∩ S| / |S|.
        error_rate: 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), the alignment error rate.
        num_links, num_sure, num_possible: |A|, |S| and |P|.
    """

    precision: float
    recall: float
    error_rate: float
    num_links: int
    num_sure: int
    num_possible: int

    def __str__(self) -> str:
        return (
            f"alignment error rate {100 * self.error_rate:.2f}%, precision {100 * self.precision:.2f}%, recall "
            f"{100 * self.recall:.2f}% ({self.num_links:,} links; reference: {self.num_sure:,} sure, "
            f"{self.num_possible:,} possible)"
        )


def alignment_errors(links: Iterable[Iterable[Link]], references: Sequence[Links]) -> AlignmentErrors:
    """Compares the links of pairs with references; sure links are also possible links.

    Args:
        links: the links of each pair; repetitions count once.

    Raises:
        DataError: for different numbers of pairs and references.

    Source: Och and Ney 2003, A Systematic Comparison of Various Statistical Alignment Models, section 6.1.

    >>> print(alignment_errors([[(0, 0), (1, 1)]], [parse_links("0-0 1?1 2-1")]))
    alignment error rate 25.00%, precision 100.00%, recall 50.00% (2 links; reference: 2 sure, 3 possible)
    """
    sets = [frozenset(each) for each in links]
    if len(sets) != len(references):
        raise DataError(f"Every pair needs a reference: {len(sets):,} pairs, {len(references):,} references.")
    count = sure = possible = right = allowed = 0
    for pair, reference in zip(sets, references):
        either = reference.sure | reference.possible
        count, sure, possible = count + len(pair), sure + len(reference.sure), possible + len(either)
        right, allowed = right + len(pair & reference.sure), allowed + len(pair & either)
    precision, recall = _ratio(allowed, count), _ratio(right, sure)
    return AlignmentErrors(precision, recall, 1 - _ratio(right + allowed, count + sure), count, sure, possible)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
