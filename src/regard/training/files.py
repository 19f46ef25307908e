"""Writing so that a kill at any moment leaves either the old file or the new one, whole.

Everything is written in a temporary folder (`.name.partial`), flushed to the disk and renamed. A folder, for a file
too: safetensors puts temporary files of its own beside the one that it writes, and a kill leaves them there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def sync(path: Path) -> None:
    """Flushes a file, or a folder's list of names, to the disk."""
    if path.is_dir() and os.name == "nt":  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file in the place of `path`, whether that exists or not."""
    partial = _fill(path, lambda folder: write(folder / path.name))
    os.replace(partial / path.name, path)
    shutil.rmtree(partial)
    sync(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Writes a small text file in the place of `path`."""
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def create_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Fills a new folder; one that is there already is removed right before."""
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


def clean(folder: Path) -> None:
    """Removes what a kill has left under temporary names, in a folder and all below."""
    for partial in list(folder.rglob(".*.partial")):
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink()


def publish(folder: Path, write: Callable[[Path], object], *, last: str) -> None:
    """Fills a temporary folder and moves its files into `folder`, each in one stroke, beside what else is there.

    Args:
        last: the name of the file that is moved last: once it is there, all are.
    """
    partial = _fill(folder / "model", write)
    files = sorted(file for file in partial.rglob("*") if file.is_file())
    for batch in ([f for f in files if f.name != last], [f for f in files if f.name == last]):
        targets = [folder / file.relative_to(partial) for file in batch]
        for file, target in zip(batch, targets):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
        for parent in {target.parent for target in targets}:
            sync(parent)
    shutil.rmtree(partial)


def _fill(path: Path, write: Callable[[Path], object]) -> Path:
    partial = _partial(path)
    partial.mkdir()
    write(partial)
    for file in [*partial.rglob("*"), partial]:
        sync(file)
    return partial


def _partial(path: Path) -> Path:
    partial = path.with_name(f".{path.name}.partial")
    if partial.is_dir():
        shutil.rmtree(partial)
    path.parent.mkdir(parents=True, exist_ok=True)
    return partial
