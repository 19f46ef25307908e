"""Standard streams and files as the verbs use them: UTF-8, line by line, results apart from chatter."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from regard.errors import DataError


def say(text: str) -> None:
    """Chatter: to stderr, so that stdout has results alone."""
    print(text, file=sys.stderr, flush=True)


def finite(number: float) -> float | None:
    """JSON knows no infinity and no NaN: null."""
    return number if math.isfinite(number) else None


def hush() -> None:
    """Points stdout nowhere, so that leaving Python after a broken pipe does not complain again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no file: somebody captures it
        sys.stdout = io.StringIO()


@contextmanager
def results(path: Path | None) -> Iterator[TextIO]:
    """Where results go: stdout, in UTF-8 whatever the locale, or a file."""
    if path is None or str(path) == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        sys.stdout.flush()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, or of stdin for `-`, as they come, without their ends.

    Raises:
        DataError: for a line that is not UTF-8, or a file that cannot be read.
    """
    name = "stdin" if str(path) == "-" else str(path)
    try:
        stream: Any = sys.stdin.buffer if name == "stdin" else path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
    with stream:
        for number, raw in enumerate(stream, start=1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{name}:{number}: not UTF-8: byte 0x{line[error.start]:02X} at byte {error.start + 1} of the "
                    "line.\n  Convert the text first, as with iconv -f latin1 -t utf-8."
                ) from None
