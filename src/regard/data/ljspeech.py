"""Recorded sentences in the form of LJSpeech: a table of texts, and a folder of sounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.errors import DataError

BAR, TABLE = "|", "metadata.csv"
SOUNDS = "wavs"
"""The folder of sounds beside a table."""
SUFFIXES = (".wav", ".flac")


@dataclass(frozen=True, slots=True)
class Utterance:
    """A recorded sentence.

    Args:
        id: its name.
        text: the last column of its line: the normalised text.
        sound: the file of its recording.
        place: where its line is, such as `metadata.csv:3`.
    """

    id: str
    text: str
    sound: Path
    place: str


def read_ljspeech(path: Path | str) -> Sequence[Utterance]:
    """The sentences of a table `id|text|normalised` or `id|text`, whose sounds are `wavs/ID.wav` beside it.

    There is no quoting: a quotation mark is a character of the text. Blank lines are left out.

    Raises:
        DataError: for a file that cannot be read, a line with another number of columns, an id that is empty, occurs
            twice or is a path, an empty text, or a sound that is missing. The text names file, line, column and value.
    """
    if (table := Path(path) / TABLE).is_file():
        raise DataError(f"{path} is a folder; give the table in it: {table}")
    lines = Lines(path, skip_blank=True)
    folder = lines.path.parent / SOUNDS
    if not folder.is_dir():
        raise DataError(f"{lines.path}: expected the folder {folder} with the sounds of its sentences; there is none.")
    first: dict[str, int] = {}
    sentences = []
    for index, line in enumerate(lines):
        number = lines.number(index)
        place = f"{lines.path}:{number}"
        fields = line.split(BAR)
        if len(fields) not in (2, 3):
            count = f"{len(fields)} column{'s' * (len(fields) > 1)}"
            tabs = "\n  Columns are separated by |, not by tabs." * ("\t" in line)
            raise DataError(f"{place}: expected id|text|normalised; got {count} in {shorten(line)}.{tabs}")
        name, text = fields[0].strip(), fields[-1].strip()
        if not name:
            raise DataError(f"{place}: id: expected one; got nothing.")
        if Path(name).name != name or name in (".", ".."):
            raise DataError(
                f"{place}: id: {shorten(name)} is no name of a file within {folder}."
                "\n  Of the sound wavs/a.wav the id is a, without folder and suffix."
            )
        if name in first:
            raise DataError(f"{place}: id: {shorten(name)} is also that of line {first[name]}.")
        if not text:
            column = "normalised" if len(fields) == 3 else "text"
            raise DataError(f"{place}: {column}: expected a text for {shorten(name)}; got nothing.")
        sound = next((file for suffix in SUFFIXES if (file := folder / (name + suffix)).is_file()), None)
        if sound is None:
            hint = _hint(folder, name) or "  The table has no header." * (index == 0 and name.lower() == "id")
            raise DataError(f"{place}: id: {shorten(name)}: {folder / name}.wav: no such file.{hint and chr(10)}{hint}")
        first[name] = number
        sentences.append(Utterance(name, text, sound, place))
    return sentences


def _hint(folder: Path, name: str) -> str:
    """What may have been meant by an id that has no sound."""
    if (folder / name).is_file():
        return f"  An id has no suffix: {Path(name).stem}"
    other = next((file.name for file in folder.glob("*.*") if file.stem.lower() == name.lower()), None)
    return "" if other is None else f"  There is {other}; sounds are called ID.wav or ID.flac."
