"""Tables of recorded sentences: what is read, and what every mistake is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.speech import Utterance, read_ljspeech
from regard.errors import DataError


def table(folder: Path, text: str, sounds: tuple[str, ...] = ("a.wav", "b.wav")) -> Path:
    (folder / "wavs").mkdir()
    for name in sounds:
        (folder / "wavs" / name).touch()
    path = folder / "metadata.csv"
    path.write_bytes(text.encode())
    return path


def test_the_last_of_two_or_three_columns_is_the_text_and_quotes_are_characters(tmp_path: Path) -> None:
    path = table(tmp_path, 'a|Dr. "No"|doctor "no\r\n\n b | one, two \n')
    assert read_ljspeech(path) == [
        Utterance("a", 'doctor "no', tmp_path / "wavs" / "a.wav", f"{path}:1"),
        Utterance("b", "one, two", tmp_path / "wavs" / "b.wav", f"{path}:3"),
    ]


def test_a_sound_may_be_a_flac_file(tmp_path: Path) -> None:
    path = table(tmp_path, "a|text\n", ("a.flac",))
    assert read_ljspeech(path)[0].sound.name == "a.flac"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a", r"metadata.csv:2: expected id\|text\|normalised; got 1 column in 'a'"),
        ("a\ttext", r"got 1 column in .*\n  Columns are separated by \|, not by tabs"),
        ("a|b|c|d", r"metadata.csv:2: expected id\|text\|normalised; got 4 columns"),
        (" |text", "metadata.csv:2: id: the field is empty"),
        ("../b|text", r"metadata.csv:2: id: '../b' is not the name of a file.*\n.* without folder and suffix"),
        ("a.wav|text", r"metadata.csv:2: id: 'a.wav': .*a.wav.wav: no such file.\n  An id has no suffix: a$"),
        ("d|text", r"metadata.csv:2: id: 'd': .*d.wav: no such file.\n  There is d.mp3; recordings are named"),
        ("b|text", "metadata.csv:2: id: 'b' is also that of line 1"),
        ("a|Text| ", "metadata.csv:2: normalised: the text of 'a' is empty"),
        ("a|", "metadata.csv:2: text: the text of 'a' is empty"),
        ("c|text", "metadata.csv:2: id: 'c': .*c.wav: no such file.$"),
    ],
)
def test_a_wrong_line_is_named_with_its_column_and_value(line: str, message: str, tmp_path: Path) -> None:
    path = table(tmp_path, f"b|first\n{line}\n", ("a.wav", "b.wav", "d.mp3"))
    with pytest.raises(DataError, match=f"(?i){message}"):
        read_ljspeech(path)


def test_a_header_and_a_folder_in_place_of_its_table_are_named(tmp_path: Path) -> None:
    path = table(tmp_path, "id|text\na|text\n")
    with pytest.raises(DataError, match=r"metadata.csv:1: the first line names the columns \('id\|text'\); remove it"):
        read_ljspeech(path)
    with pytest.raises(DataError, match=r"is a folder; give the table in it: .*metadata.csv"):
        read_ljspeech(tmp_path)


def test_a_table_without_a_folder_of_sounds_and_a_missing_table_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.csv"
    with pytest.raises(DataError, match=r"metadata\.csv"):
        read_ljspeech(path)
    path.write_text("a|text\n")
    with pytest.raises(DataError, match=r"the folder of its recordings, .*wavs, does not exist"):
        read_ljspeech(path)
