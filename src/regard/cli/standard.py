"""Standard streams and files as the verbs use them: UTF-8, line by line, results apart from chatter."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from regard.errors import DataError, RegardError


def say(text: str) -> None:
    """Chatter: to stderr, so that stdout has results only; to nowhere where stderr is closed, full or gone."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)


def show(text: object) -> None:
    """A result of a verb that writes no file: to stdout, at once, so that a disk that is full is noticed here."""
    with standard_output():
        print(text, flush=True)


def speak() -> None:
    """Lets terminals that cannot show a character show `?` in its place; a stream that is closed is none."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(getattr(sys, name), "closed", False):
            setattr(sys, name, None)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


@contextmanager
def standard_output() -> Iterator[None]:
    """Says that it is stdout that cannot be written, as where its disk is full."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename is not None:
            raise
        hush()
        raise OSError(error.errno, error.strerror, "stdout") from error


def finite(number: float) -> float | None:
    """JSON knows no infinity and no NaN: null."""
    return number if math.isfinite(number) else None


def plain(value: Any) -> Any:
    """A JSON value whose numbers JSON has: `NaN`, `Infinity` and `1e999`, which Python reads, become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return finite(value) if isinstance(value, float) else value


def hush() -> None:
    """Points stdout nowhere, so that leaving Python after a broken pipe does not complain again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no file: somebody captures it
        sys.stdout = io.StringIO()


def check_output(path: Path | None, *, overwrite: bool) -> None:
    """Refuses an output that would replace a file, before anything is computed for it."""
    if path is not None and path.is_file() and not overwrite:
        raise RegardError(f"{path}: exists; choose another name or give --overwrite.")


@contextmanager
def results(path: Path | None) -> Iterator[TextIO]:
    """Where results go: stdout, in UTF-8 whatever the locale, or a file.

    A file is written beside its place and gets its name at the end: what stops half-way leaves nothing, and what was
    there stays. What is no file, as a pipe, is written as it is.

    Raises:
        RegardError: stdout is closed.
        OSError: nothing can be written there, with the file's name.
    """
    if path is None or str(path) == "-":
        if sys.stdout is None:
            raise RegardError("stdout is closed; give a file with --output.")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        with standard_output():
            yield sys.stdout
            sys.stdout.flush()
        return
    target = path.resolve()
    is_regular = target.is_file() or not target.exists()
    place = target.with_name(f".{target.name}.{os.getpid()}") if is_regular else target
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _named(path, place):
            with place.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                yield file
            if is_regular:
                os.replace(place, target)
    finally:
        if is_regular:
            place.unlink(missing_ok=True)


@contextmanager
def _named(path: Path, place: Path) -> Iterator[None]:
    """Gives an error of the system the name of the file it is about, as when the disk is full."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename not in (None, str(place)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, or of stdin for `-`, as they come, without their ends. The file is opened at once.

    Raises:
        DataError: for a line that is not UTF-8, or a file that cannot be read.
    """
    name = "stdin" if str(path) == "-" else str(path)
    if name == "stdin" and sys.stdin is None:
        raise DataError("stdin is closed; give texts, or a file with --input.")
    try:
        stream: Any = sys.stdin.buffer if name == "stdin" else path.open("rb")
    except OSError as error:
        from regard.data.lines import reason

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
                    "line.\n  Convert the text first, as with iconv -f latin1 -t utf-8."
                ) from None
