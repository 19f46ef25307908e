"""Recorded sentences of Python in a table."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.objects import WrittenData, table_of, text_at, write_lines
from regard.data.speech.ljspeech import BAR, SOUNDS, SUFFIXES, TABLE, is_id
from regard.errors import DataError
from regard.tasks.text_to_speech.config import SpeechDataConfig

FIELDS = ("sound", "text")
"""The names of the columns of tables."""


def write_recordings(config: SpeechDataConfig, data: Any, folder: Path, name: str) -> WrittenData:
    """Writes a table of sentences in a folder of its own, with links to their recordings beside it.

    Args:
        data: a table with the columns `sound` and `text`, or a list of such pairs or dicts; a sound is the path of its
            file, .wav or .flac.
    """
    table = table_of(data, name)
    columns = table.columns(FIELDS if table.names is not None else (0, 1), "a sound and its text")
    path, names = folder / name / TABLE, set[str]()
    (path.parent / SOUNDS).mkdir(parents=True)

    def lines() -> Iterator[tuple[str, str]]:
        for number, (place, (sound, text)) in enumerate(table.selected(columns)):
            file, text = _sound(sound, place), text_at(text, place, "the text").strip()
            if not text or wrong(text):
                raise DataError(f"{place}: {text!r:.60}: a text of speech is one line without {BAR}, and not empty.")
            stem = file.stem if is_id(file.stem) and BAR not in file.stem and file.stem not in names else f"{number:06}"
            if stem in names:
                raise DataError(f"{place}: several sentences have the sound {file}.")
            names.add(stem)
            _link(file, path.parent / SOUNDS / f"{stem}{file.suffix.lower()}")
            yield place, f"{stem}{BAR}{text}"

    write_lines(path, lines())
    return WrittenData(path, name, range(1, len(table.rows) + 1))


def wrong(text: str) -> bool:
    """Whether a text has a character that separates columns or lines."""
    return BAR in text or len(text.splitlines()) > 1


def _sound(value: Any, place: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise DataError(
            f"{place}: the sound is {value!r:.40}, of type {type(value).__name__}; expected the path of a file."
        )
    file = Path(value)
    if not file.is_file():
        raise DataError(f"{place}: {file}: no such file.")
    if file.suffix.lower() not in SUFFIXES:
        raise DataError(f"{place}: {file}: expected a sound that ends in {' or '.join(SUFFIXES)}.")
    return file.absolute()


def _link(file: Path, link: Path) -> None:
    """Links a file, or copies it where the system has no links."""
    try:
        link.symlink_to(file)
    except OSError:
        shutil.copyfile(file, link)
