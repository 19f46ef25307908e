"""Parquet files from lines of CSV."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.errors import DataError, RegardError, one_line

NAME, SUFFIXES = "parquet", (".parquet", ".pq")

BLOCK_BYTES = 1 << 18
"""The bytes of CSV that are converted together, to a group of rows; more if a row is longer."""


def converter(output: Path | None, is_number: Callable[[str], bool]) -> Callable[[Path, Path], None]:
    """The function that writes a file of CSV as Parquet.

    Args:
        output: the file to write, for messages.
        is_number: whether a column, by its name, has numbers; the others have texts.

    Raises:
        RegardError: without a file, or for a pipe or device.
        DataError: from the function, for rows with different numbers of columns.
        UnsupportedError: without the package.
    """
    from regard.lazy import optional

    if output is None or (output.exists() and not output.is_file()):
        raise RegardError("Parquet is written into a file: add --output FILE.parquet.")
    csv = optional("pyarrow.csv", f"{output}: Parquet needs", extra="series")
    table = optional("pyarrow.parquet", f"{output}: Parquet needs", extra="series")
    arrow = optional("pyarrow", f"{output}: Parquet needs", extra="series")

    def convert(source: Path, target: Path) -> None:
        size, block = source.stat().st_size, BLOCK_BYTES
        if not size:
            table.write_table(arrow.table({}), target)
            return
        while True:
            try:
                write(source, target, csv.ReadOptions(use_threads=False, block_size=block))
                return
            except arrow.ArrowInvalid as error:
                if block > size:
                    raise DataError(f"{source}: cannot be written as Parquet: {one_line(str(error))}") from None
                block *= 8  # a row is longer

    def write(source: Path, target: Path, read: Any) -> None:
        parse = csv.ParseOptions(newlines_in_values=True)
        with csv.open_csv(source, read, parse) as reader:
            names = reader.schema.names
        types = {name: arrow.float64() if is_number(name) else arrow.string() for name in names}
        options = csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        with (
            csv.open_csv(source, read, parse, options) as reader,
            table.ParquetWriter(target, reader.schema) as writer,
        ):
            for batch in reader:
                writer.write_batch(batch)

    return convert
