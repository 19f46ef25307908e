"""The lock of a run folder, in which only one process may train."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import IO, Any, Self

from regard.errors import RegardError
from regard.files import writing
from regard.training import processes
from regard.training.progress import say

NAME = ".lock"
PATIENCE = 120.0
"""Seconds for which a job of torchrun waits for the lock. A process of the former job may still be saving, and a file
server keeps the locks of a machine that has failed for about 90 seconds (the lease of NFS)."""


class Lock:
    """A context that only one process can enter for each folder, if the file system has locks.

    The file `.lock` names the process that holds the lock or held it last. The lock ends with that process in any case.

    Raises:
        RegardError: on entering, if another process holds the lock (for jobs of torchrun, after `PATIENCE` seconds), or
            if the folder is not writable.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = (self._folder / NAME).open("a+", encoding="utf-8")
        try:
            if not _acquired(self._folder, self._file):
                say(
                    f"warning: {self._folder} is on a file system without locks, so nothing prevents a second job from "
                    "training in it; make sure that there is none."
                )
        except RegardError:
            self.__exit__()
            raise
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._file.flush()
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def check_free(folder: Path) -> None:
    """Raises `RegardError` if another process is training in a folder; nothing is created or changed."""
    if (folder / NAME).is_file() and os.access(folder / NAME, os.W_OK):
        with (folder / NAME).open("r+", encoding="utf-8") as file:  # NFS locks only files that are open for writing
            _acquired(folder, file)


def is_locked(file: IO[Any]) -> bool:
    """Whether another process holds the lock of an open file; if not, this one does until the file is closed."""
    return _lock(file) is False


def _lock(file: IO[Any]) -> bool | None:
    """Whether the lock of an open file was acquired; None on a file system that has none."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _acquired(folder: Path, file: IO[str]) -> bool:
    """Whether the lock was acquired; False on a file system that has none.

    Raises:
        RegardError: if another process holds it.
    """
    deadline = time.monotonic() + (PATIENCE if processes.num_started() > 1 else 0.0)
    is_waiting = False
    while (acquired := _lock(file)) is False:
        file.seek(0)
        holder = file.readline().strip() or "another process"
        if time.monotonic() >= deadline:
            raise RegardError(f"{folder}: {holder} is training in this folder. Wait for it, or stop it.")
        if not is_waiting:
            say(f"{folder}: {holder} still has the lock of this folder; waiting up to {PATIENCE:.0f} s for its end.")
            is_waiting = True
        time.sleep(0.5)
    return acquired is True
