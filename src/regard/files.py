"""Atomic writing: a kill at any moment leaves either the whole old file or the whole new one.

Everything is written into a temporary folder (`.name.regard-partial`), flushed to the disk and renamed. Single files,
too, are written into a folder, since a library may write further temporary files next to them. If the disk is full or
read-only, the temporary folder is removed and a `RegardError` names the path.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from regard.errors import OVERWRITE_OPTION, RegardError

SUFFIX = ".regard-partial"


def sync(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to the disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing(
    path: Path,
    advice: str = "Free disk space or grant write access; earlier files are complete, and the same command continues.",
) -> Iterator[None]:
    """Converts an OSError inside the block to a RegardError that names the path, with advice in a second line."""
    try:
        yield
    except OSError as error:
        raise RegardError(f"{path}: cannot be written: {error.strerror or error}.\n  {advice}") from error


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file at `path`, and replaces it if it exists."""
    with writing(path):
        partial = _fill(path, lambda folder: write(folder / path.name))
        os.replace(partial / path.name, path)
        shutil.rmtree(partial)
        sync(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Writes a small text file at `path`, and replaces it if it exists."""
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8", newline="\n"))


def create_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Fills a new folder; an existing folder is removed just before the new one is renamed."""
    with writing(path):
        partial = _fill(path, write)
        if path.exists():
            shutil.rmtree(path)
        os.replace(partial, path)
        sync(path.parent)


SHOWN = 5
"""How many names of files an error lists."""


def require_replaceable(path: Path, known: Callable[[], Collection[str]], *, kind: str, overwrite: bool) -> None:
    """Refuses to replace a file, an existing folder unless `overwrite`, and in any case a folder with other files.

    Args:
        known: returns the names of the files that may be in the folder.
        kind: of the folder, for the error, for example "an exported model".

    Raises:
        RegardError: for such a path.
    """
    if path.exists() and not path.is_dir():
        raise RegardError(f"{path}: expected a folder; this is a file. Choose another name.")
    names = {file.name for file in path.iterdir()} if path.is_dir() else set()
    if names and not overwrite:
        raise RegardError(f"{path}: the folder exists; choose another name or add {OVERWRITE_OPTION}.")
    if names and (others := sorted(names.difference(known()))):
        raise RegardError(
            f"{path}: the folder has files that are not those of {kind} ({', '.join(others[:SHOWN])}), so it is not "
            "replaced; choose another name."
        )


def remove_folder(path: Path) -> None:
    """Removes a folder after renaming it, so that it never exists in part."""
    with writing(path):
        partial = _partial(path)
        os.replace(path, partial)
        shutil.rmtree(partial)


def clean(*folders: Path) -> None:
    """Removes temporary folders of killed processes inside some folders."""
    for partial in [path for folder in folders for path in folder.glob(f".*{SUFFIX}")]:
        shutil.rmtree(partial)


def publish(
    folder: Path,
    write: Callable[[Path], object],
    *,
    last: str,
    claim: Callable[[list[str]], list[str]] = lambda names: names,
) -> None:
    """Fills a temporary folder and moves its files, each atomically, into `folder`, which keeps its other files.

    Args:
        last: the name of the file that is moved last: if it exists, all do.
        claim: called with the names of all files before the first is moved; returns the names to move.
    """
    with writing(folder):
        partial = _fill(folder / "model", write)
        names = claim(sorted(file.relative_to(partial).as_posix() for file in partial.rglob("*") if file.is_file()))
        for batch in ([name for name in names if name != last], [name for name in names if name == last]):
            for name in batch:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(partial / name, folder / name)
            for parent in {(folder / name).parent for name in batch}:
                sync(parent)
        shutil.rmtree(partial)


def _fill(path: Path, write: Callable[[Path], object]) -> Path:
    partial = _partial(path)
    partial.mkdir()
    try:
        write(partial)
        for file in [*partial.rglob("*"), partial]:
            sync(file)
    except Exception:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return partial


def _partial(path: Path) -> Path:
    partial = path.with_name(f".{path.name}{SUFFIX}")
    if partial.is_dir():
        shutil.rmtree(partial)
    path.parent.mkdir(parents=True, exist_ok=True)
    return partial


def read_array(file: Path | IO[bytes]) -> Any:
    """The array of a file of NumPy (`.npy`), or the next one of an open file, read without executing code.

    Raises:
        OSError, EOFError, ValueError: for a file that cannot be read, or is not a single array.
    """
    import numpy as np  # here, since the command line imports this file

    array: Any = np.load(file, allow_pickle=False)
    if not isinstance(array, np.ndarray):  # an archive
        raise ValueError("expected an array, found an archive")
    return array


def plain(value: Any) -> Any:
    """A value that JSON can write, with None for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
