"""Opening plain and compressed text files; other formats and encodings are errors that say how to convert the file."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import sys
import tempfile
import threading
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Literal

from regard.config.spelling import nearest
from regard.errors import DataError, first_of, one_line

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEAD_BYTES = 16
COMPRESSED: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    **{f"BZh{level}1AY&SY".encode(): bz2.open for level in range(1, 10)},
}
ZIP = b"PK\x03\x04"
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zip")
TABLES: dict[str, Literal["csv", "jsonl", "tsv"]] = {
    ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv", ".tab": "tsv",
}  # fmt: skip
"""Table formats by suffix."""
FOREIGN = {
    b"\xff\xfe": "is UTF-16; convert it first (iconv -f utf-16 -t utf-8)",
    b"\xfe\xff": "is UTF-16; convert it first (iconv -f utf-16 -t utf-8)",
    b"\xd0\xcf\x11\xe0": "is a document of Microsoft Office; save its table as CSV or tab-separated text in UTF-8",
    b"%PDF-": "is a PDF; save its text first",
    b"PAR1\x15": "is Parquet; convert it first, for example with pandas.read_parquet and DataFrame.to_csv",
    b"\x28\xb5\x2f\xfd": "is compressed with Zstandard; unpack it first (unzstd)",
    b"7z\xbc\xaf": "is a 7z archive; unpack it first",
    b"Rar!\x1a": "is a RAR archive; unpack it first",
    b"SQLite format 3\x00": "is an SQLite database; export its table as CSV first",
    b"\x89PNG": "is a picture",
    b"\xff\xd8\xff": "is a picture",
}
"""First bytes of files that are not UTF-8 text, and the end of the error's sentence."""
ENCODINGS = ("cp1252", "cp1251", "cp1250", "koi8_r", "shift_jis", "gb18030", "euc_kr")
"""Encodings in which the error of a text that is not UTF-8 shows the word at the wrong byte."""
STDIN = "-"
PATIENCE = 2.0
"""Seconds to wait for a pipe before a warning."""
_copies: dict[tuple[int, int], Any] = {}
"""Temporary copies of pipes, by device and inode of the pipe."""


def open_text(path: Path) -> IO[bytes]:
    """Opens a text file for reading, unbuffered, at the position after its byte order mark.

    Files compressed by gzip, bzip2 or xz, and zip archives of one file, are unpacked into a temporary file. A pipe is
    copied into a temporary file.

    Raises:
        DataError: for a file that is missing, damaged, or not text.
    """
    try:
        file: IO[bytes] = regular(path).open("rb", buffering=0)
        try:
            head = file.read(HEAD_BYTES)
            unpack = next((unpack for magic, unpack in COMPRESSED.items() if head.startswith(magic)), None)
            if unpack is None and head.startswith(ZIP):
                unpack = _only_member
            if unpack is not None:
                with file as packed:
                    file = _unpacked(path, packed, unpack)
                head = file.read(HEAD_BYTES)
            for magic, kind in FOREIGN.items():
                if head.startswith(magic):
                    raise DataError(f"{path} {kind}.")
            file.seek(len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise DataError(f"{path}: {reason(path, error)}") from None
    return file


def regular(path: Path) -> Path:
    """The path itself, or a temporary copy of a pipe or of stdin (`-`).

    A process reads a pipe once; all readers of the path share the copy.

    Raises:
        DataError: for a device, which has no end, or if stdin is closed.
    """
    is_stdin = str(path) == STDIN
    if is_stdin and sys.stdin is None:
        raise DataError("stdin is closed; name a file.")
    key = (-1, -1)
    if not is_stdin:
        try:
            status = path.stat()
        except OSError:
            return path  # opening the path raises the error
        key = status.st_dev, status.st_ino
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            return path
        if not stat.S_ISFIFO(status.st_mode) and not _is_terminal(path):
            raise DataError(f"{path} is a device; give a file.")
    if key not in _copies:
        copy = tempfile.NamedTemporaryFile(prefix="regard-")  # noqa: SIM115 - it lives as long as the process
        with open_pipe(path) as pipe:
            shutil.copyfileobj(pipe, copy, 1 << 20)
        copy.flush()
        _copies[key] = copy
    return Path(_copies[key].name)


def _is_terminal(path: Path) -> bool:
    with path.open("rb", buffering=0) as file:
        return file.isatty()


def open_pipe(path: Path) -> IO[bytes]:
    """Opens a pipe, or stdin for `-`, once it has data, and warns if that takes long.

    Raises:
        OSError: if it cannot be opened.
    """
    name = "stdin" if str(path) == STDIN else f"the pipe {path}"
    message = f"waiting for data on {name}; press Ctrl-C to stop."
    timer = threading.Timer(PATIENCE, lambda: warnings.warn(message, stacklevel=1))
    timer.daemon = True
    timer.start()
    try:
        pipe: Any = sys.stdin.buffer if str(path) == STDIN else path.open("rb")
        if hasattr(pipe, "peek"):
            pipe.peek(1)
        return pipe
    finally:
        timer.cancel()


def suffix_of(path: Path) -> str:
    """The suffix in lower case, without a suffix of compression: `.tsv` for `pairs.TSV.gz`."""
    name = path.name.lower()
    for suffix in COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return Path(name).suffix


def _unpacked(path: Path, packed: IO[bytes], unpack: Callable[[Any], Any]) -> IO[bytes]:
    """A temporary file with the unpacked content of a compressed file."""
    packed.seek(0)
    file = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115 - the caller closes it
    try:
        with unpack(packed) as content:
            shutil.copyfileobj(content, file, 1 << 20)
    except BaseException as error:
        file.close()
        is_damaged = isinstance(error, (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError))
        if is_damaged or (isinstance(error, OSError) and error.errno is None):  # of gzip and bz2: invalid data
            raise DataError(f"{path}: cannot be unpacked: {one_line(str(error))}") from None
        raise
    file.seek(0)
    return file


def _only_member(packed: IO[bytes]) -> IO[bytes]:
    """The single file of a zip archive."""
    archive = zipfile.ZipFile(packed)
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if "[Content_Types].xml" in names or "mimetype" in names:
        raise DataError(
            f"{packed.name} is a spreadsheet or another office document; save its table as CSV or tab-separated text "
            "in UTF-8."
        )
    if len(names) != 1:
        raise DataError(
            f"{packed.name} is an archive of {len(names)} files ({first_of(names)}); unpack it and give one of them."
        )
    return archive.open(names[0])


def not_utf8(place: str, line: bytes, at: int, *, where: str) -> DataError:
    """The error for bytes that are not UTF-8, which shows the word in other encodings.

    Args:
        place: file and line.
        line: the bytes of the line, or those around the wrong byte.
        at: the index of the wrong byte in `line`.
        where: the position of that byte, for the message.
    """
    start = max(line.rfind(b" ", 0, at), line.rfind(b"\t", 0, at), line.rfind(b"\n", 0, at), at - 20) + 1
    word = line[start : at + 20].split()[0]
    readings: dict[str, str] = {}
    for encoding in ENCODINGS:
        try:
            reading = word.decode(encoding)
        except UnicodeDecodeError:
            continue
        if reading.isprintable() and reading not in readings.values():
            readings[encoding] = reading
    shown = ", ".join(f"{reading!r} in {encoding}" for encoding, reading in readings.items())
    return DataError(
        f"{place}: not UTF-8: byte 0x{line[at]:02X} at {where}.\n"
        + (f"  The word reads {shown}.\n" if shown else "")
        + "  Convert the file from its encoding first: iconv -f ENCODING -t utf-8 FILE > NEW."
    )


def reason(path: Path, error: OSError) -> str:
    """The reason why a file could not be opened, with the most similar name in its folder."""
    if not isinstance(error, FileNotFoundError):
        return f"cannot be read: {error.strerror}."
    if not os.path.isdir(path.parent):
        return f"no such file; the folder {path.parent} does not exist."
    similar = nearest(path.name, [entry.name for entry in path.parent.iterdir()])
    return "no such file." + (f" Did you mean {path.parent / similar}?" if similar else "")
