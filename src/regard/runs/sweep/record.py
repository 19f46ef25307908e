"""The folder of a search for settings: what it began with, and whether another command continues it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import ABSENT, Config
from regard.config.configuration import differing, plain
from regard.config.place import cut
from regard.config.ranges import label
from regard.errors import OUTPUT_OPTION, OVERWRITE_OPTION, ConfigError, DataError, newer_format
from regard.files import SUFFIX, replace_text
from regard.runs.contract import task_of
from regard.runs.fingerprints import fingerprints
from regard.runs.folder import FREE
from regard.runs.sweep.study import DATABASE
from regard.training import lock
from regard.training.manifest import is_run

RECORD, TRIALS, BEST, TABLE, PICTURE = "sweep.json", "trials", "best", "trials.csv", "importances.png"
FILES = (RECORD, DATABASE, TRIALS, BEST, TABLE, PICTURE)
"""The files and folders of a search."""
FORMAT = 1
EXTENDING = ("sweep.trials", "sweep.seconds")
"""Keys that may change when a search continues."""


@dataclass(frozen=True)
class Record:
    """What a search began with.

    Args:
        configuration: the keys that were set, with the section `sweep`.
        data: the fingerprints of the files of its data.
    """

    configuration: Mapping[str, Any]
    data: Mapping[str, str]

    @classmethod
    def of(cls, config: Config) -> Record:
        """The record of a configuration with a search.

        Raises:
            DataError: for a missing file.
        """
        assert config.sweep is not None
        sections = {**config.model_dump(exclude_unset=True), "sweep": config.sweep.model_dump(exclude_unset=True)}
        return cls(plain(sections), fingerprints(task_of(config).files(config)))


def open_folder(folder: Path, record: Record, *, overwrite: bool) -> None:
    """Prepares the folder of a search, which continues the one in it.

    Args:
        overwrite: removes the search in the folder.

    Raises:
        ConfigError: for a folder with other files, or with another search (the text has the keys that differ).
        DataError: if the data have changed since the search began, or for a damaged record.
    """
    check_folder(folder, record, overwrite=overwrite)
    if overwrite:
        for path in (folder / name for name in FILES):
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
    entry = {"format": FORMAT, "configuration": record.configuration, "data": record.data}
    replace_text(folder / RECORD, json.dumps(entry, indent=1, ensure_ascii=False) + "\n")


def check_folder(folder: Path, record: Record, *, overwrite: bool) -> None:
    """Raises an error as `open_folder`, and changes nothing."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; choose a folder ({OUTPUT_OPTION})")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if is_run(folder):
        raise ConfigError(f"{folder} has a run, not a sweep; choose another folder ({OUTPUT_OPTION})")
    others = sorted(name for name in names if name not in (*FILES, lock.NAME) and not name.endswith(SUFFIX))
    if others or (TRIALS in names and RECORD not in names):
        shown = ", ".join((others or [TRIALS])[:5]) + " …" * (len(others) > 5)
        raise ConfigError(f"{folder} has files but no sweep ({shown}); choose another folder ({OUTPUT_OPTION})")
    if overwrite or RECORD not in names:
        return
    before = _read(folder / RECORD)
    has_begun = (folder / TRIALS).is_dir() and any((folder / TRIALS).iterdir())
    rows = differing(before.configuration, record.configuration)
    rows = [row for row in rows if row[0] not in (*FREE, *EXTENDING)]
    if rows and has_begun:
        lines = [f"  {key}: {_shown(was)} → {_shown(now)}" for key, was, now in rows]
        raise ConfigError(
            f"{folder} holds a sweep with another configuration:\n" + "\n".join(lines) + "\n"
            f"Continue it with the old configuration, choose another folder ({OUTPUT_OPTION}), or begin anew "
            f"({OVERWRITE_OPTION})."
        )
    changed = [name for name, value in before.data.items() if record.data.get(name) != value]
    if changed and has_begun:
        raise DataError(
            f"{folder}: the data changed since the sweep began: {', '.join(f'data.{name}' for name in changed)}.\n"
            f"Restore the files to continue, choose another folder ({OUTPUT_OPTION}), or begin anew "
            f"({OVERWRITE_OPTION})."
        )


def _read(path: Path) -> Record:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        number, record = stored["format"], Record(dict(stored["configuration"]), dict(stored["data"]))
        if not isinstance(number, int):
            raise ValueError("format is not a number")
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not the record of a sweep ({error!r:.200}).\n"
            f"  Restore the file, choose another folder ({OUTPUT_OPTION}), or begin anew ({OVERWRITE_OPTION})."
        ) from None
    if number > FORMAT:
        raise newer_format(path, number, FORMAT)
    return record


def _shown(value: object) -> str:
    return "not set" if value is ABSENT else cut(label(value), 200)
