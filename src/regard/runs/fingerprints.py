"""SHA-256 of the files that a model is trained on, so that no metric is computed on them."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from regard import __version__
from regard.data.text_file import reason, regular
from regard.errors import DataError
from regard.files import checksum
from regard.training import processes

TRAINED = {"train", "alignments"}
"""Names of files that a model learns from, alone or as a part of a dotted name."""
DAMAGED = "If it is damaged, copy it again from its origin, or train again."


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a configuration names.

    Args:
        key: the key of the configuration.
        name: the name of its fingerprint; files named `train` or `alignments`, or `train.0`, may not be evaluated.
        path: the file, or a folder.
        members: the files of the folder; all if None.
    """

    key: str
    name: str
    path: Path
    members: tuple[Path, ...] | None = None

    @classmethod
    def numbered(cls, name: str, paths: Sequence[Path]) -> list[DataFile]:
        """The files of the key `data.<name>`, with numbers in their names if there are several."""
        several = len(paths) > 1
        return [cls(f"data.{name}", f"{name}.{i}" if several else name, path) for i, path in enumerate(paths)]


def fingerprint(path: Path | str) -> str:
    """SHA-256 of a file, in hexadecimal digits; of a folder, that of the names and checksums of its files."""
    try:
        if Path(path).is_dir():
            return _of_folder(Path(path), sorted(Path(path).rglob("*")))
        file = regular(Path(path))
        status = file.stat()
        return _checksum(file.absolute(), status.st_size, status.st_mtime_ns, status.st_ino)
    except OSError as error:
        raise DataError(f"{path}: {reason(Path(path), error)}") from None


@lru_cache(maxsize=256)
def _checksum(path: Path, *state: int) -> str:
    """SHA-256 of a file in a state (size, time, number), which is computed once."""
    return checksum(path)


def _of_folder(path: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            name = file.relative_to(path).as_posix()
            digest.update(f"{checksum(file)}  {name}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def training_files(fingerprints: Mapping[str, str]) -> set[str]:
    """The fingerprints of the files that a model, or the model it started from, was trained on."""
    return {value for name, value in fingerprints.items() if not TRAINED.isdisjoint(name.split("."))}


def fingerprints(files: Iterable[DataFile]) -> dict[str, str]:
    """SHA-256 of the files of a configuration, by name."""
    return {
        file.name: fingerprint(file.path) if file.members is None else _of_members(file.path, file.members)
        for file in files
    }


def check_same(current: Mapping[str, str]) -> None:
    """Raises DataError, in all processes, if one of them has read other files than the first, as on other machines."""
    versions = {"the version of regard": __version__, "the version of torch": torch.__version__}
    ours = {**{f"data.{name}": value for name, value in current.items()}, **versions}
    everyone = processes.gathered((socket.gethostname(), ours))

    def compare() -> None:
        for number, (host, theirs) in enumerate(everyone, start=1):
            if changed := [name for name in ours if theirs.get(name) != ours[name]]:
                raise DataError(
                    f"Process {number} of {len(everyone)}, on {host}, differs from the first, on {everyone[0][0]}, in "
                    f"{', '.join(changed)}.\n  All machines need the same files and packages: copy them, or put the "
                    "data into a shared folder."
                )

    processes.first(compare)


def _of_members(folder: Path, members: Iterable[Path]) -> str:
    """The fingerprint of a folder with only these files."""
    try:
        return _of_folder(folder, sorted(set(members)))
    except OSError as error:
        raise DataError(f"{error.filename}: {reason(Path(error.filename), error)}") from None
