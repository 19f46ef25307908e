"""Standard streams and files of the commands: UTF-8, with results on stdout and messages, of errors too, on stderr."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import ENOSPC
from pathlib import Path
from typing import Any, TextIO, cast

from regard.errors import DataError, ElsewhereError, RegardError, printable, without_long_words

OTHER_SUFFIXES = {
    ".bz2", ".conll", ".conllu", ".csv", ".doc", ".docx", ".feather", ".flac", ".gz", ".htm", ".html", ".jpeg", ".jpg",
    ".json", ".jsonl", ".md", ".mp3", ".ndjson", ".npy", ".npz", ".ods", ".onnx", ".parquet", ".pdf", ".pickle", ".pkl",
    ".png", ".pq", ".pt", ".pth", ".safetensors", ".sqlite", ".svg", ".tab", ".tsv", ".wav", ".xls", ".xlsx", ".xml",
    ".xz", ".yaml", ".yml", ".zip", ".zst",
}  # fmt: skip
"""Suffixes of known formats; a command that does not write the format refuses the name."""

BLANKS = dict.fromkeys(map(ord, "\t\r\n"), " ")
"""A translation of tabs and line ends to blanks, for texts that these separate."""
TERMINATED = 143
"""The exit status after SIGTERM."""


class Terminated(SystemExit):
    """Raised after SIGTERM."""


def say(text: str) -> None:
    """Prints a message to stderr, with escapes for control characters; does nothing if stderr is closed or full."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(printable(text), file=sys.stderr, flush=True)


def show(text: object) -> None:
    """Prints a result to stdout and flushes it, so that a full disk is an error here."""
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
    """A terminal that gets escapes instead of control characters, which data may have."""

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
    """The stream, with escapes for control characters if it is a terminal."""
    return cast(TextIO, TerminalStream(stream)) if stream is not None and stream.isatty() else stream


@contextmanager
def standard_output() -> Iterator[None]:
    """Adds the name stdout to errors of writing inside the block, such as a full disk."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename is not None:
            raise
        hush()
        raise OSError(error.errno, error.strerror, "stdout") from error


def hush() -> None:
    """Discards further output to stdout, so that Python does not fail again when it exits after a broken pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is captured, not a file
        sys.stdout = io.StringIO()


def check_output(path: Path | None, *, overwrite: bool, inputs: Iterable[Path | None] = ()) -> None:
    """Raises RegardError for an output that cannot be written or would replace a file.

    Args:
        inputs: files that are read, which are never replaced.
    """
    if path is None or str(path) == "-":
        return
    target = target_of(path)
    if target.is_dir():
        raise RegardError(f"{path} is a folder; give the name of a file.")
    if next((above for above in target.parents if above.exists()), Path("/")).is_file():
        raise RegardError(f"{path}: a part of its folder is a file.")
    for source in inputs:
        if source is not None and target.is_file() and source.is_file() and target.samefile(source):
            raise RegardError(f"{path} would overwrite {source}, which is read.")
    if target.is_file() and not overwrite:
        raise RegardError(f"{path}: the file exists; choose another name or add --overwrite.")
    if target.exists() and not os.access(target, os.W_OK):
        raise RegardError(f"{path}: there is no permission to write this file.")


def format_of_output(
    path: Path | None,
    formats: Mapping[str, str],
    default: str,
    chosen: str | None = None,
    *,
    refused: Collection[str] = (),
) -> str:
    """The format of an output: the chosen one, that of the file's suffix, or the default.

    Args:
        refused: suffixes of no format, besides `OTHER_SUFFIXES`.
    """
    suffix = "" if path is None or str(path) == "-" else path.suffix.lower()
    named = formats.get(suffix)
    if named is None and (suffix in OTHER_SUFFIXES or suffix in refused):
        known = ", ".join(sorted(filter(None, formats)))
        advice = f"use one of {known}" if known else "give the name of a folder"
        raise RegardError(f"{path}: this command does not write files that end in {suffix}; {advice}.")
    if chosen is not None and named is not None and named != chosen:
        raise RegardError(f"{path}: the suffix {suffix} is that of {named}, but --format is {chosen}.")
    return chosen or named or default


def target_of(path: Path) -> Path:
    """The file of a path, with links resolved."""
    try:
        return path.resolve()
    except (RuntimeError, OSError):  # RuntimeError until Python 3.12
        raise RegardError(f"{path} is a symbolic link that leads back to itself.") from None


@contextmanager
def results(path: Path | None) -> Iterator[TextIO]:
    """The stream for results: stdout, in UTF-8 whatever the locale, or a file.

    A file is written under a temporary name and renamed at the end, so that a command which stops early leaves an old
    file as it was. A pipe or a device is written directly.

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
    target = target_of(path)
    is_regular = target.is_file() or not target.exists()
    temporary = target.with_name(f".{target.name}.{os.getpid()}") if is_regular else target
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with naming(path, temporary):
            with temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                yield file
            if is_regular:
                os.replace(temporary, target)
    finally:
        if is_regular:
            temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path, *temporary: Path) -> Iterator[None]:
    """Gives an OSError inside the block, such as a full disk, the file's name instead of none or a temporary one."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename not in (None, *map(str, temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def lines(path: Path) -> Iterator[str]:
    """The lines, without their ends, of a UTF-8 file, which may be compressed, of a pipe, or of stdin for `-`.

    The file is opened immediately and read lazily.
    """
    name = "stdin" if str(path) == "-" else str(path)
    if name == "stdin" and sys.stdin is None:
        raise DataError("stdin is closed; give texts as arguments, or a file with --input.")
    if name == "stdin":
        return _decoded(sys.stdin.buffer, name)
    from regard.data.text_file import open_pipe, open_text, reason

    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file in it.")
    try:
        stream: Any = io.BufferedReader(open_text(path)) if path.is_file() else open_pipe(path)
    except OSError as error:
        raise DataError(f"{path}: {reason(path, error)}") from None
    return _decoded(stream, name)


def _decoded(stream: Any, name: str) -> Iterator[str]:
    with stream:
        for number, raw in enumerate(stream, start=1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                from regard.data.text_file import not_utf8

                where = f"byte {error.start + 1} of the line"
                raise not_utf8(f"{name}:{number}", error.object, error.start, where=where) from None


FAILED, WRONG = 1, 2


def report(error: Exception, *, debug: bool) -> int:
    """Prints an error to stderr and returns the exit status.

    Errors of regard are printed as their texts; other ones with their class and a hint to the traceback. With several
    processes of torchrun, those after the first print only the first line.
    """
    file = error.filename if isinstance(error, OSError) else None
    if file is None and isinstance(error, OSError) and error.errno == ENOSPC:
        file = "output"  # for example when help is printed, or a library writes
    if isinstance(error, ElsewhereError):
        return WRONG
    number = int(os.environ.get("RANK", "0"))
    if debug:
        say("".join(traceback.format_exception(error)).rstrip())
    elif isinstance(error, RegardError) and number:
        say(f"process {number + 1}: {str(error).splitlines()[0]}")
    elif isinstance(error, RegardError):
        say(str(error))
    elif file is not None:
        say(without_long_words(f"{file}: {getattr(error, 'strerror', error)}"))
    else:
        hint = "\n  Lower --batch-tokens or training.batch_tokens." if _is_out_of_memory(error) else ""
        say(f"regard failed with {type(error).__name__}: {error}{hint}\n  --debug shows the traceback.")
    return WRONG if file is not None or isinstance(error, RegardError) else FAILED


def _is_out_of_memory(error: Exception) -> bool:
    return (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error)
    )
