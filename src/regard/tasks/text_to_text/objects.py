"""Pairs of Python in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.objects import WrittenData, record_of, table_of, text_at, write_records
from regard.tasks.text_to_text.config import PairDataConfig

NAMES = (("source", "target"), ("input", "output"))
"""Names of columns whose order is known."""


def write_pairs(config: PairDataConfig, data: Any, folder: Path, name: str) -> WrittenData:
    """Writes pairs of an input and an output as JSONL.

    Args:
        data: a table or a list of pairs, or of inputs only for an autoencoder; inputs may have several columns.
    """
    table = table_of(data, name)
    fields = config.source_field if isinstance(config.source_field, tuple) else (config.source_field,)
    what = "an input" if len(fields) == 1 else f"the {len(fields)} columns of an input"
    if not config.autoencode:
        fields, what = (*fields, config.target_field), f"{what} and its output"
    columns, path = table.columns(fields, what, known=NAMES), folder / f"{name}.jsonl"
    parts = [*(["the input"] * (len(fields) - 1)), "the input" if config.autoencode else "the output"]

    def records() -> Iterator[tuple[str, Any]]:
        for place, values in table.selected(columns):
            texts = [text_at(value, place, part) for value, part in zip(values, parts, strict=True)]
            yield place, record_of(fields, texts)

    write_records(path, records())
    return WrittenData(path, name, range(1, len(table.rows) + 1), {"data.format": "jsonl"})
