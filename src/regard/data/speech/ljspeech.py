"""Recorded sentences in the format of LJSpeech: a table of texts and a folder of recordings."""

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
"""The folder of recordings beside a table."""
SUFFIXES = (".wav", ".flac")
HEADINGS = ("id", "file", "file_id", "filename", "file_name", "name", "path", "utterance", "wav", "audio")
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas"}


@dataclass(frozen=True, slots=True)
class Utterance:
    """A recorded sentence.

    Args:
        text: the last column of the line: the normalised text.
        sound: the file of the recording.
        place: file and line, such as `metadata.csv:3`.
    """

    id: str
    text: str
    sound: Path
    place: str


def read_ljspeech(path: Path | str) -> Sequence[Utterance]:
    """The sentences of a table `id|text|normalised` or `id|text` with recordings `wavs/ID.wav` beside it.

    There is no quoting: a quotation mark is a character of the text. Blank lines are left out.

    Raises:
        DataError: for a file that cannot be read, a line with another number of columns, an id that is empty, repeated
            or a path, an empty text, a missing recording, or a table of several speakers. The text names file, line,
            column and value.
    """
    if (table := Path(path) / TABLE).is_file():
        raise DataError(f"{path} is a folder; give the table in it: {table}")
    lines = Lines(path, skip_blank=True)
    folder = lines.path.parent / SOUNDS
    if not folder.is_dir():
        raise DataError(f"{lines.path}: the folder of its recordings, {folder}, does not exist.")
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
                raise DataError(f"{place}: id: the field is empty.")
            if name in first:
                raise DataError(f"{place}: id: {shorten(name)} is also that of line {first[name]}.")
            text = columns[-1]
            if not text:
                column = "normalised" if len(columns) == 2 else "text"
                raise DataError(f"{place}: {column}: the text of {shorten(name)} is empty.")
            sound = sounds.find(name, place)
            first[name] = number
            sentences.append(Utterance(name, text, sound, place))
            middle += [(columns[0], place)] * (len(columns) == 2)
    if len(middle) == len(sentences):
        _check_speakers([name for name, _ in middle], lines.path)
    return sentences


def is_id(text: str) -> bool:
    """Whether a text can be the id of a sentence: a file name without blanks."""
    return bool(text.strip()) and len(text.split()) == 1 and Path(text.strip()).name == text.strip()


def _columns(line: str, place: str, *, is_first: bool) -> list[str]:
    """The columns of a line: id, text and, usually, normalised text."""
    fields = [field.strip() for field in line.split(BAR)]
    if is_first and fields[0].lower() in HEADINGS and fields[-1].lower().startswith(("text", "trans", "norm", "sent")):
        raise DataError(
            f"{place}: the first line names the columns ({shorten(line)}); remove it: these tables have no header."
        )
    if len(fields) in (2, 3):
        return fields
    other = next((mark for mark in "\t;," if mark in line), None) if len(fields) == 1 else None
    hint = f"\n  Columns are separated by |, not by {SEPARATORS[other]}." if other else ""
    if len(fields) > 3:
        hint = "\n  A text cannot contain |, as there is no quoting. Leave further columns out."
    count = counted(len(fields), "column|columns")
    raise DataError(f"{place}: expected id|text|normalised; got {count} in {shorten(line)}.{hint}")


def _check_speakers(names: Sequence[str], path: Path) -> None:
    """Raises an error for a table `id|speaker|text`, recognised by few names without blanks in its second column."""
    speakers = Counter(names)
    is_like_names = all(name and len(name.split()) == 1 for name in speakers)
    if len(speakers) > 1 and is_like_names and len(speakers) <= max(2, len(names) // 3) and len(names) > len(speakers):
        shown = ", ".join(f"{name!r} {count:,} times" for name, count in speakers.most_common(3))
        most = speakers.most_common(1)[0][0]
        raise DataError(
            f"{path}: the second of three columns seems to name {len(speakers):,} speakers ({shown}"
            f"{', …' * (len(speakers) > 3)}); a model has one voice.\n"
            "  Give a table with the sentences of one speaker, for example from\n"
            f"  grep '|{most}|' {path.name} > {most}.csv"
        )


class _Sounds:
    """The recordings of a folder, which is listed once if a file is missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, name: str, place: str) -> Path:
        """The recording of an id.

        Raises:
            DataError: if there is none; the text suggests an id.
        """
        if Path(name).name != name or name in (".", ".."):
            hint = "The id of the file wavs/a.wav is a, without folder and suffix."
            if any((self.folder / (name + suffix)).is_file() for suffix in ("", *SUFFIXES)):
                hint = f"Move the recordings into {self.folder} itself, and leave the folder out of the id."
            raise DataError(f"{place}: id: {shorten(name)} is not the name of a file in {self.folder}.\n  {hint}")
        for suffix in SUFFIXES:
            if (file := self.folder / (name + suffix)).is_file():
                return file
        hint = f"\n  {hint}" if (hint := self._hint(name)) else ""
        raise DataError(f"{place}: id: {shorten(name)}: {self.folder / name}.wav: no such file.{hint}")

    def _hint(self, name: str) -> str:
        if (self.folder / name).is_file():
            return f"An id has no suffix: {Path(name).stem}"
        other = self._files.get(name.lower())
        if other is None:
            return ""
        if len(other.parts) > 1:
            return f"There is {self.folder / other}; move it into {self.folder} itself."
        return f"There is {other}; recordings are named ID.wav or ID.flac."

    @cached_property
    def _files(self) -> dict[str, Path]:
        """All files at any depth, by their names in lower case without suffix."""
        files = (file for file in self.folder.rglob("*.*") if file.is_file())
        return {file.stem.lower(): file.relative_to(self.folder) for file in files}
