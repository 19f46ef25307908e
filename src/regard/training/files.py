"""Writing so that a kill at any moment leaves either the old file or the new one, whole.

Everything is written in a temporary folder (`.name.regard-partial`), flushed to the disk and renamed. A folder, for a
file too: a library may put temporary files of its own beside the one that it writes, and a kill leaves them there.
Where the disk is full or may not be written to, the temporary folder goes and a `RegardError` names the path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import RegardError

SUFFIX = ".regard-partial"


def sync(path: Path) -> None:
    """Flushes a file, or a folder's list of names, to the disk."""
    if path.is_dir() and os.name == "nt":  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the system says against writing into an error that names the path."""
    try:
        yield
    except OSError as error:
        raise RegardError(
            f"{path}: cannot be written: {error.strerror or error}.\n"
            "  Make room or give write access; what was saved before is whole, and the same command continues."
        ) from error


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file in the place of `path`, whether that exists or not."""
    with writing(path):
        partial = _fill(path, lambda folder: write(folder / path.name))
        os.replace(partial / path.name, path)
        shutil.rmtree(partial)
        sync(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Writes a small text file in the place of `path`."""
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def create_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Fills a new folder; one that is there already is removed right before."""
    with writing(path):
        partial = _fill(path, write)
        if path.exists():
            shutil.rmtree(path)
        os.replace(partial, path)
        sync(path.parent)


def remove_folder(path: Path) -> None:
    """Removes a folder, which is never seen half removed."""
    partial = _partial(path)
    os.replace(path, partial)
    shutil.rmtree(partial)


def clean(*folders: Path) -> None:
    """Removes what a kill has left under temporary names in some folders, and nothing below them."""
    for partial in [path for folder in folders for path in folder.glob(f".*{SUFFIX}")]:
        shutil.rmtree(partial)


def publish(
    folder: Path,
    write: Callable[[Path], object],
    *,
    last: str,
    claim: Callable[[list[str]], list[str]] = lambda names: names,
) -> None:
    """Fills a temporary folder and moves its files into `folder`, each in one stroke, beside what else is there.

    Args:
        last: the name of the file that is moved last: once it is there, all are.
        claim: is given the names of the files before any is moved, and returns those that may be.
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
