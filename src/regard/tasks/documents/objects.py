"""Documents of Python in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.documents.files import NAMED
from regard.data.objects import WrittenData, record_of, table_of, text_at, write_records
from regard.errors import DataError
from regard.tasks.documents.config import DocumentDataConfig


def write_documents(config: DocumentDataConfig, data: Any, folder: Path, name: str) -> WrittenData:
    """Writes labelled texts as JSONL.

    Args:
        data: a table with the columns of text and label, or a list of pairs `(text, label)`, or of dicts. Where
            documents may have several labels (`data.label_separator`), a label may be a list.
    """
    table = table_of(data, name)
    texts: Any = NAMED[0] if config.text_field is None else config.text_field
    texts = texts if isinstance(texts, tuple) else (texts,)
    label = NAMED[1] if config.label_field is None else config.label_field
    columns = table.columns((*texts, label), "a text and its label")
    _check_order(table.name, [[row[column] for row in table.rows if len(row) > column] for column in columns])
    path = folder / f"{name}.jsonl"

    def records() -> Iterator[tuple[str, Any]]:
        for place, (*parts, labels) in table.selected(columns):
            if labels is None:
                raise DataError(f"{place}: the label is missing.")
            labels = list(labels) if isinstance(labels, tuple | set | frozenset) else labels
            yield place, record_of((*texts, label), [*(text_at(part, place, "the text") for part in parts), labels])

    write_records(path, records())
    return WrittenData(path, name, range(1, len(table.rows) + 1), {"data.format": "jsonl"})


def _check_order(name: str, columns: list[list[Any]]) -> None:
    """Raises DataError for labels in the place of texts: they are repeated, and texts are not."""
    first, last = (len({str(value) for value in column}) for column in (columns[0], columns[-1]))
    if last > 2 * first and last > 0.9 * len(columns[-1]):
        raise DataError(
            f"{name}: pairs are (text, label), but the second of each pair is nearly always another, as texts are, and "
            f"the first is one of {first:,}; swap them."
        )
