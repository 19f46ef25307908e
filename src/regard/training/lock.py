"""The lock of a run folder, in which only one process may train."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import IO, Any, Self

from regard.errors import RegardError
from regard.files import writing

NAME = ".lock"


class Lock:
    """A context that only one process can enter for each folder, if the file system has locks.

    The file `.lock` names the process that holds the lock or held it last. The lock ends with that process in any case.

    Raises:
        RegardError: on entering, if another process holds the lock, or if the folder is not writable.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            file = (self._folder / NAME).open("a+", encoding="utf-8")
        if is_locked(file):
            error = _locked_error(self._folder, file)
            file.close()
            raise error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        self._file = file
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def check_free(folder: Path) -> None:
    """Raises `RegardError` if another process is training in a folder; nothing is created or changed."""
    if (folder / NAME).is_file():
        with (folder / NAME).open(encoding="utf-8") as file:
            if is_locked(file):
                raise _locked_error(folder, file)


def _locked_error(folder: Path, file: IO[str]) -> RegardError:
    file.seek(0)
    holder = file.readline().strip() or "another process"
    return RegardError(f"{folder}: {holder} is training in this folder. Wait for it, or stop it.")


def is_locked(file: IO[Any]) -> bool:
    """Whether another process holds the lock of an open file; if not, this one does until the file is closed."""
    try:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):  # Windows, or a file system without locks
        return False
    return False
