"""Files with a token per line: the separation of their columns, and the lines that are tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Self, get_args

from regard.data.defects import item_or_defect
from regard.data.table_rows import TAB
from regard.errors import ConfigError, DataError, counted
from regard.tasks.labelling.config import ConlluColumn

BYTE_ORDER_MARK = "\ufeff"
BLANKS = re.compile("[ \t]+")
INVISIBLE = f"\u200b\u200c\u200d\u200e\u200f\u2060{BYTE_ORDER_MARK}"
"""Characters without width."""
DOCUMENT = "-DOCSTART-"
"""The token of lines that begin a document, which belong to no sentence."""
CONLLU: tuple[str, ...] = get_args(ConlluColumn)
UNANNOTATED = "_"
VALUED = ("form", "feats", "deps", "misc")
"""Columns of CoNLL-U in which `_` is a value; in the others it stands for no value."""
EXAMINED = 1_000
"""The number of lines from which a file's form is recognised."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: a label for each token, and the file and line of the first.

    Args:
        tokens: S strings.
        labels: S strings, empty where the file has no label.
        place: file and line of the first token.
        lines: the lines of the file from the end of the previous sentence, if they are read for output.
        rows: the index in `lines` of each token.
    """

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    place: str
    lines: tuple[str, ...] = field(default=(), compare=False)
    rows: tuple[int, ...] = field(default=(), compare=False)


class TokenText(str):
    """Tokens joined by spaces; `tokens` has the originals, which may contain spaces."""

    tokens: tuple[str, ...]

    def __new__(cls, tokens: tuple[str, ...]) -> Self:
        text = super().__new__(cls, " ".join(tokens))
        text.tokens = tokens
        return text


@dataclass(frozen=True, slots=True)
class Columns:
    """The form of a file with a token per line, and a blank line between sentences.

    Args:
        format: conll (columns between spaces or tabs), tsv (between tabs) or conllu.
        token, label: columns, counted from 0, or from the end if they are negative.
        width: the number of columns of most lines.
    """

    format: str
    token: int
    label: int
    width: int

    @classmethod
    def of(
        cls,
        lines: Iterable[str],
        path: Path,
        *,
        format: str = "auto",
        token_column: int | str | None = None,
        label_column: int | str | None = None,
    ) -> Columns:
        """The form of a file, recognised from its first lines."""
        examined = [line for line in islice(lines, EXAMINED) if not is_blank(line)]
        if format == "auto":
            format = recognised_format(examined, path)
        defaults: tuple[int | str, int | str] = ("form", "upos") if format == "conllu" else (0, -1)
        numbers: list[int] = []
        for key, column, default in zip(
            ("token_column", "label_column"), (token_column, label_column), defaults, strict=True
        ):
            column = default if column is None else column
            if isinstance(column, str) and format != "conllu":
                raise ConfigError(
                    f"{path} is read as {format}, whose columns have numbers and no names such as {column!r}; give the "
                    "number, or data.format=conllu",
                    ("data", key),
                )
            numbers.append(CONLLU.index(column) if isinstance(column, str) else column)
        widths = Counter(len(_split(line, format)) for line in examined)
        token, label = numbers
        return cls(format, token, label, max(widths, key=lambda width: widths[width], default=0))

    def __str__(self) -> str:
        between = {"conll": "spaces or tabs", "tsv": "tabs", "conllu": "tabs, as in CoNLL-U"}[self.format]
        return f"columns separated by {between}; tokens in {self._name(self.token)}, labels in {self._name(self.label)}"

    def _name(self, column: int) -> str:
        if self.format == "conllu":
            return CONLLU[column]
        return "the last column" if column == -1 else f"column {column}"

    def read(
        self, lines: Iterable[str | None], name: str, *, labelled: bool = True, keep: bool = False
    ) -> Iterator[Sentence]:
        """The sentences of lines; one with an unreadable line is a defect (`regard.data.defects`).

        Args:
            lines: None for a line that is already a defect.
            name: the beginning of places.
            labelled: whether every token needs a label.
            keep: whether sentences have their lines; the last one also has the lines after it.

        Raises:
            DataError: for a line without these columns, with file, line and the columns that it has.
        """
        tokens: list[tuple[str, str]] = []
        lines_read: list[str] = []
        rows: list[int] = []
        first, size, whole = 0, 0, None
        for number, line in enumerate(chain(lines, [""]), start=1):
            cells = None if line is None else self._cells(line)
            ends = cells is not None and (not cells or cells[0].split(" ")[0] == DOCUMENT)
            if ends and size:
                if whole is not None:
                    yield whole
                whole = None
                if len(tokens) == size:
                    words, labels = zip(*tokens)
                    whole = Sentence(words, labels, f"{name}:{first}", tuple(lines_read), tuple(rows))
                tokens, lines_read, rows, size = [], [], [], 0
            if keep and line is not None:
                lines_read.append(line)
            if ends or (cells is not None and self._is_skipped(cells, begins=not size)):
                continue
            first = first if size else number
            size += 1
            with item_or_defect:
                if cells is not None:
                    tokens.append(self._token(cells, f"{name}:{number}", labelled=labelled))
                    rows.append(len(lines_read) - 1)
        if whole is not None:
            yield replace(whole, lines=(*whole.lines, *lines_read[:-1])) if keep else whole

    def _cells(self, line: str) -> list[str]:
        return [] if is_blank(line) else _split(line.removeprefix(BYTE_ORDER_MARK), self.format)

    def token_rows(self, lines: Iterable[str]) -> list[list[str]]:
        """The columns of the lines that are tokens."""
        rows = (self._cells(line) for line in lines)
        return [cells for cells in rows if cells and not self._is_skipped(cells, begins=True)]

    def label_of(self, cells: Sequence[str]) -> str:
        """The content of the column of the label; empty without such a column."""
        column = self._label(len(cells))
        return "" if column is None else cells[column]

    def filled(self, sentence: Sentence, labels: Sequence[str]) -> list[str]:
        """The lines of a sentence with new labels for its tokens."""
        lines = list(sentence.lines)
        for row, label in zip(sentence.rows, labels, strict=True):
            lines[row] = self._filled(lines[row], label)
        return lines

    def _filled(self, line: str, label: str) -> str:
        blank = self.format == "conll"
        pieces = re.split("([ \t]+)" if blank else "(\t)", line.rstrip(" \t" if blank else " "))
        cells = range(0 if pieces[0] else 2, len(pieces), 2)
        if (column := self._label(len(cells))) is None:
            between = pieces[-2] if len(cells) > 1 else " " if blank else TAB
            return "".join([*pieces, between, label])
        pieces[cells[column]] = label
        return "".join(pieces)

    def _label(self, count: int) -> int | None:
        """The column of the label in a line with this number of columns; None if it has none."""
        is_there = -count <= self.label < count and (count > 1 or self.token == self.label)
        return self.label if is_there else None

    def _is_skipped(self, cells: Sequence[str], *, begins: bool) -> bool:
        """Whether a line is a comment, or in CoNLL-U a multiword token (1-2) or an empty node (8.1).

        In other forms a token may begin with #: a comment precedes a sentence, and has = or another number of columns.
        """
        is_marked = cells[0].startswith("#")
        if self.format == "conllu":
            return is_marked or bool(re.fullmatch(r"\d+[-.]\d+", cells[0]))
        return is_marked and begins and (len(cells) != self.width or any("=" in cell for cell in cells[1:]))

    def _token(self, cells: Sequence[str], place: str, *, labelled: bool) -> tuple[str, str]:
        count, column = len(cells), self._label(len(cells))
        if self.format == "conllu" and count != len(CONLLU):
            raise DataError(
                f"{place}: a line of CoNLL-U has {len(CONLLU)} columns separated by tabs; this one has {count}."
            )
        if not -count <= self.token < count or (labelled and column is None):
            key = "label" if -count <= self.token < count else "token"
            shown = ", ".join(map(repr, cells[:4]))
            between = "spaces or tabs" if self.format == "conll" else "tabs"
            raise DataError(
                f"{place}: {counted(count, 'column|columns')} separated by {between} ({shown:.80}), but "
                f"data.{key}_column is {getattr(self, key)}.\n  Of this file, which is read as {self.format} "
                f"(data.format), most lines have {self.width}."
            )
        token, label = cells[self.token].strip(" \t"), ""
        if column is not None:
            label = cells[column].strip().strip(INVISIBLE).strip()
        if not token or (labelled and not label):
            raise DataError(f"{place}: the {'label' if token else 'token'} is empty.")
        is_missing = self.format == "conllu" and label == UNANNOTATED and CONLLU[self.label] not in VALUED
        return token, "" if is_missing else label


def tokens_of(sentence: str | Sequence[str]) -> tuple[str, ...]:
    """The tokens of a sentence; a text is split at spaces, tabs and line ends."""
    if isinstance(sentence, TokenText):
        return sentence.tokens
    return tuple(re.findall("[^ \t\r\n]+", sentence) if isinstance(sentence, str) else sentence)


def is_blank(line: str) -> bool:
    """Whether a line has no visible character."""
    return not line.strip().strip(INVISIBLE).strip()


def recognised_format(lines: Sequence[str], path: Path) -> str:
    """The form of most lines, none of which is blank: conllu, tsv or conll."""
    if path.suffix.lower() == ".conllu":
        return "conllu"
    rows = [line.split(TAB) for line in lines if not line.startswith("#")]
    numbered = sum(len(row) == len(CONLLU) and bool(re.match(r"\d+([-.]\d+)?$", row[0])) for row in rows)
    if 2 * numbered > len(rows):
        return "conllu"
    return "tsv" if 2 * sum(len(row) > 1 for row in rows) > len(rows) else "conll"


def _split(line: str, format: str) -> list[str]:
    """The columns of a line, which may contain spaces other than U+0020."""
    return BLANKS.split(line.strip(" \t")) if format == "conll" else line.split(TAB)
