"""Running text: symbols of files, parts, counts, and windows with their left context."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text import (
    BOS,
    UNKNOWN,
    ByteUnits,
    CharacterUnits,
    Field,
    Normalisation,
    RunningText,
    TextSpan,
    TextWindows,
    Vocabulary,
    WhitespaceUnits,
    WordUnits,
    running_text,
)
from regard.errors import DataError, RegardError

VERSE = "  To be, or not to be:\nthat is the question.\n\nWhether 'tis nobler\tin the mind \nto suffer é.\n"


@pytest.fixture
def verse(tmp_path):
    path = tmp_path / "verse.txt"
    path.write_text(VERSE, encoding="utf-8")
    return path


@pytest.mark.parametrize("units", [CharacterUnits(), ByteUnits()])
def test_characters_and_bytes_give_back_the_text_with_all_its_white_space(verse, units):
    text = RunningText.read(verse, units=units, held_out=0.0)
    assert text.decode(text.ids) == VERSE
    assert text.ids.dtype == np.int32
    assert (text.train.num_tokens, text.held_out.num_tokens) == (len(text.ids), 0)
    assert text.train.num_characters == len(VERSE)
    assert text.train.num_words == len(VERSE.split())
    np.testing.assert_array_equal(text.encode(VERSE), text.ids)


def test_words_keep_the_lines(verse):
    text = RunningText.read(verse, units=WordUnits(), held_out=0.0, normalisation=Normalisation(case="lower"))
    lines = ["to be, or not to be:", "that is the question.", "", "whether 'tis nobler in the mind", "to suffer é.", ""]
    assert text.decode(text.ids) == "\n".join(lines)
    assert len(text.ids) == (8 + 1) + (5 + 1) + 1 + (7 + 1) + (4 + 1)


def test_the_last_tenth_is_held_out_at_the_end_of_a_line(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{n:03} ab\n" for n in range(100)), encoding="utf-8")
    text = RunningText.read(path)
    assert text.decode(text.ids[text.train.stop :]).startswith("090 ab\n")
    assert (text.train.num_characters, text.held_out.num_characters) == (630, 70)
    assert (text.train.num_words, text.held_out.num_words) == (180, 20)
    words = RunningText.read(path, units=WhitespaceUnits())
    assert (words.held_out.num_tokens, words.held_out.num_unknown) == (30, 10)
    assert words.ids[words.held_out.start] == UNKNOWN


def test_a_file_may_be_held_out_and_several_are_read_in_order(tmp_path):
    for name, content in (("a", "one"), ("b", "two\n"), ("c", "won\r\nx\r\n")):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" * (name == "a") + content.encode())
    text = RunningText.read([tmp_path / "a", tmp_path / "b"], held_out=tmp_path / "c")
    assert text.decode(text.ids) == "one\ntwo\nwon\n<unk>\n"
    assert text.held_out == TextSpan(8, 14, 6, 2, 1)
    assert text.field.vocabulary.symbols == ("\n", "o", "e", "n", "t", "w")


def test_a_vocabulary_may_be_limited_or_given(verse):
    assert RunningText.read(verse, max_symbols=3, held_out=0.0).field.vocabulary.symbols == (" ", "t", "e")
    vocabulary = Vocabulary("eo")
    text = RunningText.read(verse, vocabulary=vocabulary, held_out=0.0)
    assert text.field.vocabulary is vocabulary
    assert text.train.num_unknown == sum(c not in "eo" for c in VERSE)


def test_a_text_without_line_ends_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(running_text, "BLOCK_BYTES", 16)
    path, content = tmp_path / "long.txt", " ".join(f"wörd{n}" for n in range(200))
    path.write_text(content, encoding="utf-8")
    text = RunningText.read(path)
    assert text.decode(text.ids) == content
    assert text.train.num_words + text.held_out.num_words == 200
    assert text.held_out.num_characters == pytest.approx(len(content) / 10, abs=20)
    monkeypatch.setattr(running_text, "LONGEST_BLOCK", 16)
    path.write_text("無" * 500, encoding="utf-8")
    assert len(RunningText.read(path).ids) == 500


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no text"),
        (b"one\ntwo \xff\n", r"text.txt:2: not UTF-8: byte 0xFF at byte 9 of the file"),
        (b"one\ntw\xc3", r"text.txt:2: not UTF-8: byte 0xC3 at byte 7 of the file"),
        (b"\x1f\x8b123", "cannot be unpacked"),
        (b"oneline", "7 tokens with 0 line ends to cut at are too few to hold out 0.1"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path, content, message):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        RunningText.read(path)


def test_a_fault_in_a_later_block_has_its_line_and_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(running_text, "BLOCK_BYTES", 5)
    path = tmp_path / "text.txt"
    path.write_bytes("é\n".encode() * 20 + b"\xe9x\n")
    with pytest.raises(DataError, match=r":21: not UTF-8: byte 0xE9 at byte 61 of the file"):
        RunningText.read(path)


def test_what_cannot_be_read_is_refused(tmp_path, verse):
    with pytest.raises(DataError, match=r"no such file. Did you mean .*verse.txt"):
        RunningText.read(tmp_path / "verses.txt")
    with pytest.raises(DataError, match="the list of files is empty"):
        RunningText.read([])
    with pytest.raises(DataError, match=r"held_out=1\.5 must be a share"):
        RunningText.read(verse, held_out=1.5)
    with pytest.raises(DataError, match="no symbol occurs 99 times"):
        RunningText.read(verse, min_count=99, held_out=0.0)
    text = RunningText.read(verse, held_out=0.0)
    with pytest.raises(RegardError, match="has no tokens"):
        TextWindows(text, text.held_out, length=2, context=1)
    with pytest.raises(RegardError, match="context=0 must be at least 1"):
        TextWindows(text, text.train, length=2, context=0)
    windows = TextWindows(text, text.train, length=2, context=1)
    with pytest.raises(RegardError, match="batch_size=0"):
        windows.shuffled(0, seed=1, epoch=0)
    with pytest.raises(RegardError, match="rank must be at least 0 and below world_size=2; got 2"):
        windows.shuffled(1, seed=1, epoch=0, rank=2, world_size=2)


def numbered(count, start):
    """A text whose token at position i has the id 4 + i, and the part from `start` on."""
    field = Field(Normalisation(), CharacterUnits(), Vocabulary(map(chr, range(256, 256 + count))))
    ids = np.arange(4, 4 + count, dtype=np.int32)
    return RunningText(field, ids, TextSpan(0, start, 0, 0, 0), TextSpan(start, count, 0, 0, 0))


@given(
    st.integers(1, 40), st.integers(0, 20), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.integers(1, 3)
)
def test_every_token_is_scored_once_with_its_context(count, start, length, context, batch_size, world_size):
    text = numbered(start + count, start)
    windows = TextWindows(text, text.held_out, length=length, context=context)
    epoch = [windows.shuffled(batch_size, seed=1, epoch=2, rank=r, world_size=world_size) for r in range(world_size)]
    assert len({len(batches) for batches in epoch}) == 1
    in_order = list(windows.in_order(batch_size))
    assert sum(len(batch.inputs) for batch in in_order) == len(windows)
    for batches in (in_order, [windows.batch(rows) for share in epoch for rows in share]):
        scored = []
        for batch in batches:
            assert len(batch.inputs) <= batch_size
            for inputs, targets, mask in zip(*batch):
                count_real = int((inputs > 0).sum())
                assert not inputs[count_real:].any()
                first = targets[0] - 4  # position of the first target
                assert inputs[0] == (BOS if first == 0 else first + 3)
                np.testing.assert_array_equal(inputs[1:count_real], targets[: count_real - 1])
                places = np.flatnonzero(mask)
                np.testing.assert_array_equal(places, np.arange(places[0], count_real))
                assert len(places) <= length
                assert places[0] + 1 == min(context, targets[places[0]] - 4 + 1)
                scored += (targets[places] - 4).tolist()
        assert sorted(scored) == list(range(start, start + count))


def test_an_epoch_is_a_pure_function_of_seed_and_epoch():
    text = numbered(50, 0)
    windows = TextWindows(text, text.held_out, length=4, context=2)
    first = np.concatenate(windows.shuffled(3, seed=5, epoch=0))
    np.testing.assert_array_equal(first, np.concatenate(windows.shuffled(3, seed=5, epoch=0)))
    others = [windows.shuffled(3, seed=5, epoch=1), windows.shuffled(3, seed=6, epoch=0)]
    assert all(not np.array_equal(first, np.concatenate(other)) for other in others)
