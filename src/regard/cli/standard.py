"""Standard streams and files of the verbs: UTF-8, with results on stdout and messages on stderr."""

from __future__ import annotations

import io
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from regard.errors import DataError, RegardError, printable


def say(text: str) -> None:
    """Prints a message to stderr, as stdout has only results; does nothing if stderr is closed or full.

    What a terminal would obey is written as an escape.
    """
    if sys.stderr is not None:
        with suppress(OSError):
            print(printable(text), file=sys.stderr, flush=True)


def show(text: object) -> None:
    """Prints a result to stdout at once, so that a full disk is noticed here."""
    with standard_output():
        print(text, file=safe(sys.stdout), flush=True)


def plain_warnings() -> None:
    """Makes Python's warnings lines without the file and the line of code that warned."""
    warnings.formatwarning = lambda message, *_, **__: printable(f"warning: {message}\n")


def prepare_streams() -> None:
    """Makes stdout write `?` for characters that it cannot encode, and sets closed streams to None."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(getattr(sys, name), "closed", False):
            setattr(sys, name, None)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


class TerminalStream(io.TextIOBase):
    """A terminal, to which what it would obey is written as an escape: results show data, which may hold anything.

    Args:
        stream: writes to the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes a text, and returns its length."""
        self._stream.write(printable(text))
        return len(text)

    def flush(self) -> None:
        """Writes what is buffered."""
        self._stream.flush()


def safe(stream: TextIO) -> TextIO:
    """The stream itself, or, if it writes to a terminal, one that the terminal does not obey; a file gets the data."""
    return cast(TextIO, TerminalStream(stream)) if stream is not None and stream.isatty() else stream


@contextmanager
def standard_output() -> Iterator[None]:
    """Turns an error of writing inside the block, such as a full disk, into one that names stdout."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename is not None:
            raise
        hush()
        raise OSError(error.errno, error.strerror, "stdout") from error


def finite(number: float) -> float | None:
    """A finite number, or None, which is null in JSON: it has no infinity and no NaN."""
    return number if math.isfinite(number) else None


def plain(value: Any) -> Any:
    """A value that JSON can write: `NaN`, `Infinity` and `1e999`, which Python can read, become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return finite(value) if isinstance(value, float) else value


def hush() -> None:
    """Discards further output to stdout, so that Python does not fail again when it exits after a broken pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is captured, not a file
        sys.stdout = io.StringIO()


def check_output(path: Path | None, *, overwrite: bool) -> None:
    """Refuses an output that would replace a file, before it is computed."""
    if path is not None and path.is_file() and not overwrite:
        raise RegardError(f"{path}: the file exists; choose another name or add --overwrite.")


@contextmanager
def results(path: Path | None) -> Iterator[TextIO]:
    """The stream for results: stdout, in UTF-8 whatever the locale, or a file.

    A file is written under a temporary name and renamed at the end, so a verb that stops early leaves the old file, if
    any, as it was. A pipe or a device is written directly.

    Raises:
        RegardError: if stdout is closed.
        OSError: if the file cannot be written; the error has its name.
    """
    if path is None or str(path) == "-":
        if sys.stdout is None:
            raise RegardError("stdout is closed; name a file with --output.")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        with standard_output():
            yield safe(sys.stdout)
            sys.stdout.flush()
        return
    target = path.resolve()
    is_regular = target.is_file() or not target.exists()
    partial = target.with_name(f".{target.name}.{os.getpid()}") if is_regular else target
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _named(path, partial):
            with partial.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                yield file
            if is_regular:
                os.replace(partial, target)
    finally:
        if is_regular:
            partial.unlink(missing_ok=True)


@contextmanager
def _named(path: Path, partial: Path) -> Iterator[None]:
    """Adds the file's name to an error of the system inside the block, such as a full disk."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename not in (None, str(partial)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def lines(path: Path) -> Iterator[str]:
    """The lines, without their ends, of a UTF-8 file, or of stdin for `-`. The file is opened at once, and read lazily.

    Raises:
        DataError: for a line that is not UTF-8, or a file that cannot be read.
    """
    name = "stdin" if str(path) == "-" else str(path)
    if name == "stdin" and sys.stdin is None:
        raise DataError("stdin is closed; give texts as arguments, or a file with --input.")
    try:
        stream: Any = sys.stdin.buffer if name == "stdin" else path.open("rb")
    except OSError as error:
        from regard.data.text_file import reason

        raise DataError(f"{path}: {reason(path, error)}") from None
    return _decoded(stream, name)


def _decoded(stream: Any, name: str) -> Iterator[str]:
    with stream:
        for number, raw in enumerate(stream, start=1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{name}:{number}: not UTF-8: byte 0x{line[error.start]:02X} at byte {error.start + 1} of the "
                    "line.\n  Convert the text first, for example with iconv -f latin1 -t utf-8."
                ) from None
