"""Recorded sentences in the form of LJSpeech: a table of texts, and a folder of sounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.data.defects import item_or_defect
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.errors import DataError, counted

BAR, TABLE = "|", "metadata.csv"
SOUNDS = "wavs"
"""The folder of sounds beside a table."""
SUFFIXES = (".wav", ".flac")
HEADINGS = ("id", "file", "file_id", "filename", "file_name", "name", "path", "utterance", "wav", "audio")
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas"}


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
            twice or is a path, an empty text, a sound that is missing, or a table of several speakers. The text names
            file, line, column and value.
    """
    if (table := Path(path) / TABLE).is_file():
        raise DataError(f"{path} is a folder; give the table in it: {table}")
    lines = Lines(path, skip_blank=True)
    folder = lines.path.parent / SOUNDS
    if not folder.is_dir():
        raise DataError(f"{lines.path}: expected the folder {folder} with the sounds of its sentences; there is none.")
    sounds = _Sounds(folder)
    first: dict[str, int] = {}
    sentences = []
    middle: list[tuple[str, str]] = []
    for index in range(len(lines)):
        number = lines.number(index)
        with item_or_defect:
            place = f"{lines.path}:{number}"
            name, *columns = _columns(lines[index], place, is_first=index == 0)
            if not name:
                raise DataError(f"{place}: id: expected one; got nothing.")
            if name in first:
                raise DataError(f"{place}: id: {shorten(name)} is also that of line {first[name]}.")
            text = columns[-1]
            if not text:
                column = "normalised" if len(columns) == 2 else "text"
                raise DataError(f"{place}: {column}: expected a text for {shorten(name)}; got nothing.")
            sound = sounds.find(name, place)
            first[name] = number
            sentences.append(Utterance(name, text, sound, place))
            middle += [(columns[0], place)] * (len(columns) == 2)
    if len(middle) == len(sentences):
        _check_speakers([name for name, _ in middle], lines.path)
    return sentences


def is_id(text: str) -> bool:
    """Whether a text may be the id of a sentence: a name of a file without blanks."""
    return bool(text.strip()) and len(text.split()) == 1 and Path(text.strip()).name == text.strip()


def _columns(line: str, place: str, *, is_first: bool) -> list[str]:
    """The columns of a line: an id, a text, and mostly a normalised text."""
    fields = [field.strip() for field in line.split(BAR)]
    if is_first and fields[0].lower() in HEADINGS and fields[-1].lower().startswith(("text", "trans", "norm", "sent")):
        raise DataError(
            f"{place}: the first line names the columns ({shorten(line)}); remove it: a table has no header."
        )
    if len(fields) in (2, 3):
        return fields
    other = next((mark for mark in "\t;," if mark in line), None) if len(fields) == 1 else None
    hint = f"\n  Columns are separated by |, not by {SEPARATORS[other]}." if other else ""
    if len(fields) > 3:
        hint = "\n  A text has no | in it: there is no quoting. Leave further columns out."
    count = counted(len(fields), "column|columns")
    raise DataError(f"{place}: expected id|text|normalised; got {count} in {shorten(line)}.{hint}")


def _check_speakers(names: Sequence[str], path: Path) -> None:
    """Refuses a table `id|speaker|text`: few short names without blanks in place of as many texts as sentences."""
    speakers = Counter(names)
    is_like_names = all(name and len(name.split()) == 1 for name in speakers)
    if len(speakers) > 1 and is_like_names and len(speakers) <= max(2, len(names) // 3) and len(names) > len(speakers):
        shown = ", ".join(f"{name!r} {count:,} times" for name, count in speakers.most_common(3))
        most = speakers.most_common(1)[0][0]
        raise DataError(
            f"{path}: the second of three columns seems to name {len(speakers):,} speakers ({shown}"
            f"{', …' * (len(speakers) > 3)}); a model has one voice.\n"
            "  Give a table with the sentences of one speaker, for example of\n"
            f"  grep '|{most}|' {path.name} > {most}.csv"
        )


class _Sounds:
    """The sounds of a folder; its list is read when something is missing, once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, name: str, place: str) -> Path:
        """The sound of an id.

        Raises:
            DataError: if there is none; the text says what may have been meant.
        """
        if Path(name).name != name or name in (".", ".."):
            hint = "Of the sound wavs/a.wav the id is a, without folder and suffix."
            if self.is_below(name):
                hint = f"Sounds stand in {self.folder} itself: move them there, and leave the folder out of the id."
            raise DataError(f"{place}: id: {shorten(name)} is no name of a file within {self.folder}.\n  {hint}")
        for suffix in SUFFIXES:
            if (file := self.folder / (name + suffix)).is_file():
                return file
        hint = f"\n  {hint}" if (hint := self._hint(name)) else ""
        raise DataError(f"{place}: id: {shorten(name)}: {self.folder / name}.wav: no such file.{hint}")

    def is_below(self, name: str) -> bool:
        """Whether a path below the folder, with or without suffix, is a sound."""
        return any((self.folder / (name + suffix)).is_file() for suffix in ("", *SUFFIXES))

    def _hint(self, name: str) -> str:
        if (self.folder / name).is_file():
            return f"An id has no suffix: {Path(name).stem}"
        other = self._files.get(name.lower())
        if other is None:
            return ""
        if len(other.parts) > 1:
            return f"There is {self.folder / other}; sounds stand in {self.folder} itself."
        return f"There is {other}; sounds are called ID.wav or ID.flac."

    @cached_property
    def _files(self) -> dict[str, Path]:
        """All files, also those of folders within, by their names in lower case without suffix."""
        files = (file for file in self.folder.rglob("*.*") if file.is_file())
        return {file.stem.lower(): file.relative_to(self.folder) for file in files}
