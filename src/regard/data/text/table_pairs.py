"""Pairs from the rows of a table: tab-separated text, CSV, or texts with `|||` between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from regard.config.spelling import suggestion
from regard.data.pairs import Pair, Pairs, shorten
from regard.data.table_rows import TAB, AbstractRows, CsvRows, SeparatedRows
from regard.errors import DataError, Option, counted

BARS = "|||"
PARALLEL = Option("--source FILE --target FILE\n  of other commands", "`references` of evaluate")
HEADINGS = {
    "answer", "arpabet", "english", "expected", "features", "form", "french", "from", "german", "grapheme", "graphemes",
    "id", "inflected", "input", "ipa", "label", "language", "lemma", "normalised", "normalized", "output", "phone",
    "phoneme", "phonemes", "phones", "phonetic", "pronunciation", "question", "reference", "russian", "sentence",
    "source", "spanish", "spelling", "src", "tag", "tags", "target", "text", "tgt", "to", "transcription",
    "transliteration", "translation", "trg", "word", "words", "x", "y",
}  # fmt: skip
"""The words of column names, in lower case."""
LANGUAGES = {
    "ar", "bn", "cs", "da", "de", "en", "es", "fa", "fi", "fr", "hi", "hu", "ja", "ka", "ko", "lt", "lv", "nl", "pl",
    "pt", "ro", "ru", "sk", "sl", "sr", "sv", "ta", "th", "tr", "uk", "ur", "vi", "zh",
}  # fmt: skip
"""Codes of languages as column names, without those that are common words."""


class TablePairs(Pairs):
    """One pair per row; blank lines are skipped.

    The first row is a header if fields are names, or if it has names such as `word` and `pronunciation`. Every row
    needs as many columns as the first, so that a stray separator is an error and never shortens a text.

    Args:
        source_fields: the columns of the source, counted from 0, or their names; several are joined by tabs.
    """

    def __init__(self, rows: AbstractRows, *, source_fields: Sequence[str | int], target_field: str | int) -> None:
        self.rows = rows
        self.path = rows.lines.path
        first = rows[0] if len(rows) else []
        self._width = len(first)
        fields = (*source_fields, target_field)
        self._is_by_default = fields == (0, 1)
        columns = [self._column(field, first) for field in fields]
        self.source_columns, self.target_column = columns[:-1], columns[-1]
        self._needed = max(columns) + 1
        names = [first[column].strip() for column in columns if column < len(first)]
        is_named = any(isinstance(field, str) for field in fields)
        if is_named or (len(rows) > 1 and len(names) == len(columns) > 1 and are_headings(names)):
            self._heading = tuple(names)

    _heading: tuple[str, ...] = ()

    @property
    def heading(self) -> tuple[str, ...]:
        return self._heading

    @property
    def num_columns(self) -> int:
        return self._width if self._is_by_default and self._width > 2 else 0

    @property
    def num_blank(self) -> int:
        return self.rows.num_blank

    def __len__(self) -> int:
        return max(0, len(self.rows) - bool(self._heading))

    def read(self, index: int) -> Pair:
        index += bool(self._heading)
        row, number = self.rows[index], self.rows.number(index)
        if len(row) < self._needed:
            raise DataError(self._too_few(row, number))
        if len(row) != self._width:
            raise DataError(
                f"{self._counted(row, number)}; the first line has {self._width}, and every line needs the same number."
            )
        source = TAB.join(row[column] for column in self.source_columns)
        return Pair(source, row[self.target_column], self.path, number)

    def part(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        if start == stop:
            return [], []
        shift, columns = bool(self._heading), None
        if self._width >= self._needed:
            columns = self.rows.columns(start + shift, stop + shift, self._width)
        if columns is None:
            return super().part(start, stop)  # which raises the error of a row
        sources = columns[self.source_columns[0]]
        if len(self.source_columns) > 1:
            sources = list(map(TAB.join, zip(*(columns[number] for number in self.source_columns), strict=True)))
        return sources, columns[self.target_column]

    def _column(self, field: str | int, first: Sequence[str]) -> int:
        if isinstance(field, int):
            return field
        names = [name.strip() for name in first]
        if names.count(field) == 1:
            return names.index(field)
        if field in names:
            raise DataError(f"{self.path}:{self.rows.number(0)}: several columns have the name {field!r}.")
        hint = suggestion(field, names, f"the columns are {', '.join(map(repr, names)) or 'none'}.")
        raise DataError(f"{self.path}: no column {field!r} in the first line; {hint}")

    def _counted(self, row: Sequence[str], number: int) -> str:
        columns = counted(len(row), f"{self.rows.kind} column|columns")
        return f"{self.path}:{number}: {columns} in {shorten(TAB.join(row))}"

    def _too_few(self, row: Sequence[str], number: int) -> str:
        sources = ", ".join(map(str, self.source_columns))
        fields = f"fields {sources} and {self.target_column}, counted from 0"
        message = f"{self._counted(row, number)}; {fields}, need at least {self._needed}."
        if len(row) == 1:
            message += (
                "\n  Are the columns separated by tabs? For texts without an output, set data.autoencode=true."
                f"\n  For two parallel files, set data.train={{source: …, target: …}} in training, or use {PARALLEL}."
            )
        return message


def open_table(path: Path, format: str, *, source_fields: Sequence[str | int], target_field: str | int) -> TablePairs:
    """The pairs of a TSV or CSV file, or of a file with `|||` between the texts of each line.

    Raises:
        DataError: for a file that cannot be read or does not have these columns.
    """
    if format == "csv":
        return TablePairs(CsvRows(path), source_fields=source_fields, target_field=target_field)
    rows = SeparatedRows(path, TAB)
    if len(rows) and TAB not in rows.lines[0] and f" {BARS} " in rows.lines[0]:
        rows = SeparatedRows(path, BARS)
    return TablePairs(rows, source_fields=source_fields, target_field=target_field)


def are_headings(names: Sequence[str]) -> bool:
    """Whether all texts are names of columns, such as `word` or `IPA transcription`."""
    words = [re.findall(r"[^\W\d_]+", name.lower()) for name in names]
    of_languages = {name.lower() for name in names} <= LANGUAGES
    return len(set(names)) == len(names) and (of_languages or all(each and HEADINGS.issuperset(each) for each in words))
