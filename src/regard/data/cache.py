"""The cache of encoded data: folders of arrays, each under a key of the data's content and settings.

The cache is the folder `$REGARD_CACHE`, or else `regard` in `$XDG_CACHE_HOME` or in `~/.cache`. An entry appears whole
or not at all, so several processes may write the same one. Entries that have not been used for longest are removed when
all together are larger than `MOST_BYTES`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import files

VERSION = 1
"""The number of the format of entries; others are not read."""
MOST_BYTES = 50 << 30
"""The most bytes of all entries."""
CONTENTS = "contents.json"
"""The file of an entry with the sizes of its other files, and whatever the writer adds."""
PARTIAL = ".partial-"
STALE_SECONDS = 86_400
"""The time after which the folder of an entry that is being written was left behind by a kill."""


def folder() -> Path:
    """The folder of the cache, which need not exist."""
    if named := os.environ.get("REGARD_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "regard"


@contextmanager
def writing() -> Iterator[Path]:
    """The folder of the cache, which is made; an OSError inside the block becomes a RegardError that names it."""
    place = folder()
    advice = "Free disk space, or name a folder on another disk in the environment variable REGARD_CACHE."
    with files.writing(place, advice):
        place.mkdir(parents=True, exist_ok=True)
        yield place


@dataclass(frozen=True)
class CacheEntry:
    """An entry of the cache.

    Args:
        contents: what the writer has stored besides arrays; JSON.
    """

    path: Path
    contents: dict[str, Any]

    @classmethod
    def find(cls, key: str) -> CacheEntry | None:
        """The entry of a key; None if there is none, or if its files are not those that were written."""
        path = folder() / f"{key}-{VERSION}"
        try:
            stored = json.loads((path / CONTENTS).read_text(encoding="utf-8"))
            if any((path / name).stat().st_size != size for name, size in stored["sizes"].items()):
                return None
            os.utime(path / CONTENTS)
            return cls(path, stored["contents"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def write(cls, key: str, fill: Callable[[Path], dict[str, Any]]) -> CacheEntry | None:
        """Writes an entry, and removes others if there are too many.

        Args:
            fill: writes files into a folder and returns what is stored besides.

        Returns:
            the entry, or the one that another process has written meanwhile; None if it could not be put in place.

        Raises:
            RegardError: if it cannot be written, for example to a full disk.
        """
        with writing() as place:
            partial = place / f"{PARTIAL}{secrets.token_hex(8)}"
            partial.mkdir()
            try:
                contents = fill(partial)
                sizes = {file.name: file.stat().st_size for file in partial.iterdir()}
                text = json.dumps({"contents": contents, "sizes": sizes})
                (partial / CONTENTS).write_text(text, encoding="utf-8")
                for file in (*partial.iterdir(), partial):  # sizes do not tell what a power cut has lost
                    files.sync(file)
                target = place / f"{key}-{VERSION}"
                if cls.find(key) is None:
                    shutil.rmtree(target, ignore_errors=True)
                    with suppress(OSError):  # another process was first, or the file system cannot
                        os.rename(partial, target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        trim(keep=key)
        return cls.find(key)

    def array(self, name: str) -> NDArray[Any]:
        """An array of the entry, of which the system reads the parts that are used.

        Raises:
            OSError, ValueError: if the file is not there any more.
        """
        return np.asarray(np.load(self.path / f"{name}.npy", mmap_mode="r", allow_pickle=False))


def entries() -> list[tuple[Path, int, float]]:
    """The entries with their bytes and the time of their last use, the latest used first."""
    found = []
    for path in folder().glob("*-*"):
        try:
            if not path.name.startswith(PARTIAL) and (path / CONTENTS).is_file():
                size = sum(file.stat().st_size for file in path.iterdir())
                found.append((path, size, (path / CONTENTS).stat().st_mtime))
        except OSError:  # another process removes it
            continue
    return sorted(found, key=lambda entry: -entry[2])


def trim(*, keep: str = "", most: int = MOST_BYTES) -> int:
    """Removes the entries that have not been used for longest, and what killed processes have left behind.

    Args:
        keep: the key of an entry that stays.
        most: the most bytes of those that stay.

    Returns:
        the number of bytes that were removed.
    """
    for path in folder().glob(f"{PARTIAL}*"):
        try:
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue
    total = removed = 0
    for path, size, _ in entries():
        if total + size > most and not (keep and path.name.startswith(f"{keep}-")):
            shutil.rmtree(path, ignore_errors=True)
            removed += size
        else:
            total += size
    return removed
