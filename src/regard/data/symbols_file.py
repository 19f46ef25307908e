"""JSON files with a format number and a list of symbols, one per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import DataError, newer_format
from regard.files import replace_text

FORMAT = 1


def write(path: Path, header: dict[str, Any], symbols: tuple[str, ...]) -> None:
    """Writes a file. Characters that cannot be printed are escaped."""
    entries = {"format": FORMAT, **header}
    lines = [f"{_quoted(key)}: {json.dumps(value)},\n" for key, value in entries.items()]
    listed = ",\n".join(map(_quoted, symbols))
    replace_text(path, "{\n" + "".join(lines) + f'"symbols": [\n{listed}\n]\n}}\n')


def read(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The header and the symbols of a file.

    Raises:
        DataError: if the file cannot be read, is of a newer format, or has no list of symbols.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise DataError(f"{path}: not a JSON document: {error}") from None
    number = document.get("format") if isinstance(document, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise DataError(f"{path}: not a vocabulary written by regard: it has no format number.")
    if number > FORMAT:
        raise newer_format(path, number, FORMAT)
    symbols = document.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise DataError(f"{path}: expected `symbols` to be a list of texts; got {symbols!r:.60}.")
    return {key: value for key, value in document.items() if key not in ("format", "symbols")}, tuple(symbols)


def _quoted(symbol: str) -> str:
    return json.dumps(symbol, ensure_ascii=not symbol.isprintable())
