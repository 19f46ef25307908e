"""Parquet files from lines of CSV."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.errors import RegardError

NAME, SUFFIXES = "parquet", (".parquet", ".pq")


def converter(output: Path | None, is_number: Callable[[str], bool]) -> Callable[[Path, Path], None]:
    """The function that writes a file of CSV as Parquet.

    Args:
        output: the file to write, for messages.
        is_number: whether a column, by its name, has numbers; the others have texts.

    Raises:
        RegardError: without a file, or for a pipe or device.
        UnsupportedError: without the package.
    """
    from regard.lazy import optional

    if output is None or (output.exists() and not output.is_file()):
        raise RegardError("Parquet is written into a file: add --output FILE.parquet.")
    csv = optional("pyarrow.csv", f"{output}: Parquet needs", extra="series")
    table = optional("pyarrow.parquet", f"{output}: Parquet needs", extra="series")
    arrow = optional("pyarrow", f"{output}: Parquet needs", extra="series")

    def convert(source: Path, target: Path) -> None:
        parse = csv.ParseOptions(newlines_in_values=True)
        if not source.stat().st_size:
            table.write_table(arrow.table({}), target)
            return
        names = csv.open_csv(source, parse_options=parse).schema.names
        types = {name: arrow.float64() if is_number(name) else arrow.string() for name in names}
        options = csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        table.write_table(csv.read_csv(source, parse_options=parse, convert_options=options), target)

    return convert
