"""Labelled documents from CSV, TSV, JSONL, and folders of text."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

from regard.config.spelling import suggestion
from regard.data.csv_fields import csv_rows, is_blank
from regard.data.defects import is_collecting, item_or_defect
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.data.split import held_out_indices
from regard.data.table_rows import TAB
from regard.data.text.jsonl import entry, has_half_pair, parse
from regard.data.text_file import TABLES, not_utf8, open_text, reason, suffix_of
from regard.errors import ConfigError, DataError, counted

DocumentFormat = Literal["auto", "csv", "tsv", "jsonl", "folder"]
FieldName = str | int
SUFFIXES: dict[str, DocumentFormat] = {**TABLES, ".txt": "tsv"}
NUMBERED: tuple[int, int] = (1, 0)
"""The default columns of text and label in TSV: label, tab, text."""
NAMED: tuple[str, str] = ("text", "label")
"""The default fields of text and label in CSV and JSONL."""
TEXT_KEY, LABEL_KEY = "data.text_field", "data.label_field"
"""The keys of configurations that name these fields."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its labels, file and line.

    Args:
        text: as in the file; several fields are joined by blank lines.
        labels: one, or any number if documents may have several; empty if labels are not read.
        file: for a document of a folder, its own file.
        line: the first line of its row, from 1.
    """

    text: str
    labels: tuple[str, ...]
    file: Path
    line: int = 1

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file}:{self.line}"


class Documents(Sequence[Document]):
    """A sequence of documents in memory; slices are sequences too.

    Args:
        num_blank: the number of skipped blank lines.
    """

    def __init__(self, items: Sequence[Document], *, num_blank: int = 0) -> None:
        self.items = tuple(items)
        self.num_blank = num_blank

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> Documents: ...
    def __getitem__(self, index: int | slice) -> Document | Documents:
        return Documents(self.items[index]) if isinstance(index, slice) else self.items[index]


def read_documents(
    path: Path | str,
    *,
    format: DocumentFormat = "auto",
    text_field: FieldName | Sequence[FieldName] | None = None,
    label_field: FieldName | None = None,
    labelled: bool = True,
    label_separator: str | None = None,
    delimiter: str = ",",
    header: bool | None = None,
) -> Documents:
    """Reads labelled documents into memory.

    - csv: a header names the columns; fields in double quotes may contain delimiters and line ends.
    - tsv: tab-separated columns without quoting. There is a header if the first line has the columns `text` and
      `label`, or if fields are names. Otherwise columns are counted from 0; by default the label is before the tab and
      the text after it.
    - jsonl: one object per line with named fields, or a list with numbered entries. A label may be a text, a number,
      true or false, and, with a separator, a list of these.
    - folder: a folder for each label with text files of documents at any depth; the names of the folders are the
      labels. Files and folders whose names begin with a period are skipped.

    Blank lines are skipped and counted (`num_blank`). A document may be empty.

    Args:
        path: the file or folder, in UTF-8.
        format: `auto` chooses by the suffix (.csv, .jsonl, .ndjson, .tsv, .tab, .txt).
        text_field: the column or field of the text, `text` if None; several texts are joined by blank lines.
        label_field: the column or field of the labels, `label` if None.
        labelled: False reads texts only, as for predictions.
        label_separator: the text between the labels of a document, which may then have any number. If None, each
            document has exactly one label.
        delimiter: the delimiter of a CSV file, a single character.
        header: whether the first line names the columns, which otherwise have numbers. If None, CSV files have a header
            and TSV files as described above.

    Raises:
        ConfigError: for options that contradict the file.
        DataError: for a file that cannot be read; the text names file, line, field and value.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "news.csv"
    ...     _ = file.write_text('label,text\\nearn,"profit up, a lot"\\nacq,they bought it\\n')
    ...     documents = read_documents(file)
    >>> [(item.labels, item.text, item.line) for item in documents]
    [(('earn',), 'profit up, a lot', 2), (('acq',), 'they bought it', 3)]
    """
    path = Path(path)
    if label_separator == "":
        raise ConfigError("label_separator must not be empty; leave it out if documents have one label each.")
    if format == "auto":
        format = "folder" if path.is_dir() else _by_suffix(path)
    if format == "folder":
        options = {"text_field": text_field, "label_field": label_field, "label_separator": label_separator}
        for name, value in options.items():
            if value is not None:
                raise ConfigError(f"{path}: {name}={value!r} has no effect: documents of a folder are whole files.")
        return Documents(_of_folder(path, labelled=labelled))
    lines = None if format == "csv" else Lines(path, skip_blank=True)
    if header is None:
        header = format == "csv" or (format == "tsv" and _names_columns(lines, text_field, label_field, labelled))
    by_number = format in ("csv", "tsv") and not header
    defaults: tuple[FieldName, FieldName] = NUMBERED if by_number else NAMED
    if labelled is False and by_number:
        defaults = (0, 0)
    text_field = defaults[0] if text_field is None else text_field
    texts = (text_field,) if isinstance(text_field, (str, int)) else tuple(text_field)
    if not texts:
        raise ConfigError("text_field lists no field; give one or more.")
    label = (defaults[1] if label_field is None else label_field) if labelled else None
    for field in (*texts, *(() if label is None else (label,))):
        if by_number and (isinstance(field, str) or field < 0):
            raise ConfigError(f"{path}: columns of {format.upper()} are counted from 0, for example 1; got {field!r}.")
    wanted = _Wanted(texts, label, label_separator)
    if lines is None:
        return _of_csv(path, wanted, delimiter, header=header)
    items = []
    columns = lines[0].count(TAB) + 1 if len(lines) else 0
    names = None
    for index in range(len(lines)):
        if format == "tsv" and header and names is None:
            names = _names(path, lines[index].split(TAB), wanted, TAB)
            continue
        place = f"{path}:{lines.number(index)}"
        with item_or_defect:
            if format == "jsonl":
                row = _Row(place, parse(lines[index], place))
            else:
                row = _Row(place, lines[index].split(TAB))
                row.check_columns(columns, wanted)
                row = row if names is None else _Row(place, dict(zip(names, row.values, strict=True)))
            items.append(wanted.document(row, path, lines.number(index)))
    return Documents(items, num_blank=lines.num_skipped)


def hold_out_documents(documents: Documents, fraction: float) -> tuple[Documents, Documents]:
    """Training documents and held-out documents: one is held out if the `share` of its text is below the fraction.

    The choice depends on the text only, so that equal texts are in the same part.

    Raises:
        DataError: if one of the parts would be empty.
    """
    options = {"what": "document|documents", "setting": "a fraction of "}
    advice = "Give a file of held-out documents, or another fraction."
    train, dev = held_out_indices((item.text for item in documents), fraction, advice=advice, **options)
    return Documents([documents[i] for i in train]), Documents([documents[i] for i in dev])


@dataclass(frozen=True, slots=True)
class _Row:
    """A row's values by name or number, and its place."""

    place: str
    values: Any

    def check_columns(self, count: int, wanted: _Wanted) -> None:
        """Raises an error for another number of columns than in the first line, or too few."""
        if len(self.values) == count > wanted.last:
            return
        columns = counted(len(self.values), "tab-separated column|columns")
        message = f"{self.place}: {columns} in {shorten(TAB.join(self.values))}"
        if len(self.values) <= wanted.last:
            message += (
                f"; fields {', '.join(map(str, wanted.fields))}, counted from 0, need at least {wanted.last + 1}.\n"
                "  A document is label, tab, text, unless other columns are chosen."
            )
        else:
            message += f"; the first line has {count}, and every line needs the same number."
        raise DataError(message)

    def value(self, field: FieldName, key: str) -> Any:
        """The value of a field.

        Args:
            key: of the configuration that names the field.
        """
        values: Any = self.values
        if isinstance(field, str) != isinstance(values, dict) or not isinstance(values, (dict, list)):
            kind = f"the fields {_listed(values)}" if isinstance(values, dict) else shorten(str(values))
            raise DataError(f"{self.place}: expected the field {field!r} ({key}); the line holds {kind}.")
        try:
            return entry(values, field)
        except (KeyError, IndexError):
            raise DataError(f"{self.place}: no field {field!r} ({key}); {_nearest(str(field), values)}") from None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The fields to read, and the separator of labels."""

    texts: tuple[FieldName, ...]
    label: FieldName | None
    separator: str | None

    @property
    def fields(self) -> tuple[FieldName, ...]:
        return (*self.texts, *(() if self.label is None else (self.label,)))

    @property
    def last(self) -> int:
        """The largest column number."""
        return max((field for field in self.fields if isinstance(field, int)), default=0)

    def document(self, row: _Row, file: Path, line: int) -> Document:
        texts = []
        for field in self.texts:
            value = row.value(field, TEXT_KEY)
            if not isinstance(value, str):
                raise DataError(f"{row.place}: field {field!r} must be text; got {shorten(str(value))}.")
            _check_halves(value, field, row.place)
            texts.append(value)
        return Document("\n\n".join(texts), () if self.label is None else self._labels(row), file, line)

    def _labels(self, row: _Row) -> tuple[str, ...]:
        assert self.label is not None
        value = row.value(self.label, LABEL_KEY)
        entries = value if isinstance(value, list) and self.separator is not None else [value]
        names: list[str] = []
        for item in entries:
            if not isinstance(item, (str, int)):
                kind = "text or a number" + ", or a list of them" * (self.separator is not None)
                hint = "\n  For lists of labels give a separator." * (isinstance(value, list) and len(names) == 0)
                raise DataError(f"{row.place}: field {self.label!r} must be {kind}; got {shorten(str(item))}.{hint}")
            name = str(item).lower() if isinstance(item, bool) else str(item)
            _check_halves(name, self.label, row.place)
            names += [name] if self.separator is None else name.split(self.separator)
        stripped = [name.strip() for name in names]
        if self.separator is not None:
            return tuple(dict.fromkeys(name for name in stripped if name))
        if not stripped[0]:
            raise DataError(
                f"{row.place}: field {self.label!r} is empty; every document needs a label.\n"
                "  If documents may have none or several, give the separator between labels."
            )
        return tuple(stripped)


def _of_csv(path: Path, wanted: _Wanted, delimiter: str, *, header: bool) -> Documents:
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ConfigError(f"delimiter must be a single character, for example ',' or ';'; got {delimiter!r}.")
    text = _decoded(path, errors="surrogateescape" if is_collecting() else "strict")
    items: list[Document] = []
    names: list[str] | None = None
    blank, width = 0, 0
    for line, row in csv_rows(io.StringIO(text, newline=""), delimiter, str(path)):
        if is_blank(row):
            blank += 1
            continue
        if header and names is None:
            names, width = _names(path, row, wanted, delimiter), len(row)
            continue
        width = width or len(row)
        place = f"{path}:{line}"
        with item_or_defect:
            if len(row) != width:
                first = "the header" if header else "the first row"
                raise DataError(
                    f"{place}: {len(row)} fields in {shorten(delimiter.join(row))}; {first} has {width}.\n"
                    f"  Fields that contain {delimiter!r} or line ends need double quotes around them."
                )
            for value in row:
                _check_bytes(value, place)
            values: Any = row if names is None else dict(zip(names, row, strict=True))
            items.append(wanted.document(_Row(place, values), path, line))
    return Documents(items, num_blank=blank)


def _names_columns(
    lines: Lines | None, text: FieldName | Sequence[FieldName] | None, label: FieldName | None, labelled: bool
) -> bool:
    """Whether the first line of a TSV file is a header."""
    chosen = [*((text,) if isinstance(text, (str, int)) else text or ()), *(() if label is None else (label,))]
    if chosen:
        return any(isinstance(field, str) for field in chosen)
    first = [name.strip() for name in lines[0].split(TAB)] if lines else []
    return len(first) > 1 and {"text", *(("label",) if labelled else ())} <= set(first)


def _names(path: Path, row: list[str], wanted: _Wanted, delimiter: str) -> list[str]:
    """The names of a header; the wanted ones must occur once."""
    names = [name.strip() for name in row]
    for field in wanted.fields:
        if isinstance(field, int):
            raise ConfigError(f"{path}: columns of a table with a header have names; got {field}.")
        if field in names and names.count(field) > 1:
            raise DataError(f"{path}:1: {names.count(field)} columns are named {field!r}; only one may be.")
        if field not in names:
            hint = f"\n  Is {delimiter!r} the delimiter of the file?" if len(names) == 1 else ""
            key = LABEL_KEY if field == wanted.label else TEXT_KEY
            raise DataError(
                f"{path}:1: no column {field!r} ({key}); {_nearest(str(field), dict.fromkeys(names))}{hint}"
            )
    return names


def _of_folder(path: Path, *, labelled: bool) -> list[Document]:
    if not path.is_dir():
        raise DataError(f"{path}: not a folder." if path.exists() else f"{path}: no such folder.")
    documents = []
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).parts
        if any(part.startswith(".") for part in parts) or not file.is_file():
            continue
        with item_or_defect:
            if labelled and len(parts) == 1:
                raise DataError(
                    f"{file}: has no label, as it is in no folder of a label.\n"
                    "  A document is a file in a folder that is named after its label; move other files away."
                )
            documents.append(Document(_decoded(file), (parts[0],) if labelled else (), file))
    if not documents:
        raise DataError(f"{path}: has no documents; expected a folder for each label with text files in it.")
    return documents


def _decoded(path: Path, *, errors: Literal["strict", "surrogateescape"] = "strict") -> str:
    """The text of a file in UTF-8, without its byte order mark."""
    with open_text(path) as file:
        raw = file.read()
    try:
        return raw.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        number = raw.count(b"\n", 0, error.start) + 1
        raise not_utf8(f"{path}:{number}", raw, error.start, where=f"byte {error.start + 1} of the file") from None


def _by_suffix(path: Path) -> DocumentFormat:
    if suffix_of(path) in SUFFIXES:
        return SUFFIXES[suffix_of(path)]
    if not path.exists():
        raise DataError(f"{path}: {reason(path, FileNotFoundError())}")
    raise ConfigError(
        f"{path}: the suffix {path.suffix!r} is unknown; expected one of {' '.join(SUFFIXES)}, or set the format: csv, "
        "tsv, jsonl or folder."
    )


def _check_halves(text: str, field: FieldName, place: str) -> None:
    if has_half_pair(text):
        raise DataError(f"{place}: field {field!r} has half a surrogate pair, not text: {shorten(text)}.")


def _check_bytes(text: str, place: str) -> None:
    """Raises an error for a text with a byte that is not UTF-8, decoded as half a surrogate pair."""
    if wrong := re.search("[\udc80-\udcff]", text):
        raw, byte = (part.encode("utf-8", "surrogateescape") for part in (text, text[: wrong.start()]))
        raise not_utf8(place, raw, len(byte), where=f"byte {len(byte) + 1} of the field")


def _nearest(name: str, values: Any) -> str:
    """The hint of an error about a missing field: similar names, or those of the file."""
    if isinstance(values, list):
        return f"counted from 0, the list has {len(values)}."
    return suggestion(name, values, f"there are {_listed(values) or 'none'}.")


def _listed(values: Any) -> str:
    return ", ".join(map(repr, values))
