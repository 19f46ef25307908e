"""Running text as one long sequence of ids, and the windows into which it is cut."""

from __future__ import annotations

import codecs
import math
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.defects import is_collecting, item_or_defect
from regard.data.lines import Lines
from regard.data.tally import MOST_NAMES
from regard.data.text.field import Field
from regard.data.text.normalisation import Normalisation
from regard.data.text.units import CharacterUnits, Units
from regard.data.text.vocabulary import BOS, PAD, UNKNOWN, Vocabulary
from regard.data.text_file import not_utf8, open_text
from regard.errors import DataError, RegardError, counted

BLOCK_BYTES = 1 << 18
LONGEST_BLOCK = 1 << 24
"""Bytes after which a text without white space is cut anywhere."""
MOST_HELD_OUT = 200_000
"""Tokens that are held out of a long text, about."""
NEWLINE = "\n"
"""The symbol of a line's end, where units have none."""
BEGINNING = -1
"""The position of `<s>`, before the first token of a text."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A stretch of a running text.

    Args:
        start, stop: the tokens from `start` to `stop`, excluded.
        num_characters, num_words: of the text that they stand for, as it was read: line ends count as characters,
            words are what white space separates.
        num_unknown: how many of the tokens are not in the vocabulary.
        unknown: the most frequent of these symbols, with their counts.
    """

    start: int
    stop: int
    num_characters: int
    num_words: int
    num_unknown: int
    unknown: tuple[tuple[str, int], ...] = field(default=(), compare=False)

    @property
    def num_tokens(self) -> int:
        """How many tokens there are."""
        return self.stop - self.start


@dataclass(frozen=True)
class RunningText:
    """A text of any length as ids, 4 bytes a token.

    Args:
        field: normalisation, units and vocabulary.
        ids: (tokens,) int32.
        train, held_out: its parts; the held-out one follows and may be empty.
    """

    field: Field
    ids: NDArray[np.int32]
    train: TextSpan
    held_out: TextSpan

    @classmethod
    def read(
        cls,
        paths: Path | str | Sequence[Path | str],
        *,
        held_out: float | Path | str | Sequence[Path | str] | None = 0.1,
        units: Units | None = None,
        normalisation: Normalisation | None = None,
        vocabulary: Vocabulary | None = None,
        min_count: int = 1,
        max_symbols: int | None = None,
    ) -> RunningText:
        """Reads text files in UTF-8, one after the other, in one pass.

        Lines are normalised one by one and keep the white space at their ends. A line's end is a symbol of its own,
        as in `join`. The vocabulary is learned from the training part only.

        Args:
            paths: a file, or several in their order; a line end is put between them where there is none.
            held_out: the share of the tokens, from the end, that is held out; `suggested_share` if None; or files. The
                cut is at the end of the nearest line (of a very long line, at white space), where characters and words
                can be counted.
            units: characters if None.
            normalisation: `Normalisation()` if None.
            vocabulary: if it is known already, or comes with the units.
            min_count, max_symbols: as in `Vocabulary.build`.

        Raises:
            DataError: for a file that is missing, empty, compressed or not UTF-8, and for a text that is too short.
        """
        units = CharacterUnits() if units is None else units
        if isinstance(held_out, float) and not 0 <= held_out < 1:
            raise DataError(f"held_out={held_out:g} must be a share, at least 0 and below 1, or a file.")
        normalise = Normalisation() if normalisation is None else normalisation
        reader = _Reader(units, normalise)
        files = _paths(paths)
        reader.add(files)
        cut = len(reader.marks) - 1  # marks begin with that of the beginning
        if held_out is None:
            held_out = suggested_share(len(reader.ids))
        if not isinstance(held_out, float | int):
            reader.add(_paths(held_out))
        ids, marks = reader.ids, reader.marks.table()
        if isinstance(held_out, float | int):
            cut = _nearest(marks, (1 - held_out) * len(ids))
            if held_out and not 0 < cut < len(marks) - 1:
                raise DataError(
                    f"{', '.join(map(str, files))}: {counted(len(ids), 'token|tokens')} with "
                    f"{counted(max(len(marks) - 2, 0), 'place|places')} to cut at "
                    f"(ends of lines) are too few to hold out {held_out:g} of them.\n"
                    "  Give a file of held-out text, or hold nothing out."
                )
        if vocabulary is None and units.inventory is not None:
            vocabulary = Vocabulary(units.inventory)
        if vocabulary is None:
            counts = np.bincount(ids[: marks[cut, 0]], minlength=len(reader.symbols))
            seen = [(s, int(n)) for s, n in zip(reader.symbols, counts, strict=True) if n >= max(min_count, 1)]
            vocabulary = Vocabulary([s for s, _ in sorted(seen, key=lambda pair: (-pair[1], pair[0]))[:max_symbols]])
        if not vocabulary.symbols:
            raise DataError(f"{', '.join(map(str, files))}: no symbol occurs {min_count} times; lower min_count.")
        symbols, in_text = list(reader.symbols), ids
        renumbered = vocabulary.ids(symbols).astype(np.int32)
        ids = renumbered[in_text]
        parts = []
        for first, last in ((0, cut), (cut, len(marks) - 1)):
            (start, characters, words), (stop, *ends) = marks[first].tolist(), marks[last].tolist()
            counts = np.where(renumbered == UNKNOWN, np.bincount(in_text[start:stop], minlength=len(symbols)), 0)
            frequent = [i for i in np.argsort(-counts, kind="stable")[:MOST_NAMES].tolist() if counts[i]]
            unknown = tuple((symbols[i], int(counts[i])) for i in frequent)
            parts.append(TextSpan(start, stop, ends[0] - characters, ends[1] - words, int(counts.sum()), unknown))
        return cls(Field(normalise, units, vocabulary), ids, *parts)

    def encode(self, text: str) -> NDArray[np.int64]:
        """The ids of a text, for example of a prompt."""
        return encode(self.field, text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        return decode(self.field, ids)


def suggested_share(num_tokens: int) -> float:
    """The share of a text to hold out: a tenth, or about 200,000 tokens if that is less.

    >>> suggested_share(1_000_000), suggested_share(100_000_000)
    (0.1, 0.002)
    """
    return min(0.1, float(f"{MOST_HELD_OUT / max(num_tokens, 1):.2g}"))


def encode(field: Field, text: str) -> NDArray[np.int64]:
    """The ids of running text: lines are normalised and split one by one, and their ends are symbols.

    >>> from regard.data.text import CharacterUnits
    >>> field = Field(Normalisation(case="lower"), CharacterUnits(), Vocabulary(["a", " ", "\\n"]))
    >>> encode(field, "A a\\n")
    array([4, 5, 4, 6])
    """
    return field.vocabulary.ids(split_text(field, text))


def split_text(field: Field, text: str) -> list[str]:
    """The symbols of running text, whether they are in the vocabulary or not.

    >>> from regard.data.text import WordUnits
    >>> split_text(Field(Normalisation(), WordUnits(), Vocabulary(["a"])), "Ay, sir\\n")
    ['Ay', ',', 'sir', '\\n']
    """
    return list(_split(field.units, field.normalisation, text))


def line_end(field: Field) -> int | None:
    """The id of a line's end; None if it is not in the vocabulary.

    >>> line_end(Field(Normalisation(), CharacterUnits(), Vocabulary(["a", "\\n"])))
    5
    """
    symbol = _newline(field.units)
    return int(field.vocabulary.ids([symbol])[0]) if symbol in field.vocabulary else None


def decode(field: Field, ids: Iterable[int]) -> str:
    """The text of ids, line by line.

    >>> from regard.data.text import WordUnits
    >>> field = Field(Normalisation(), WordUnits(), Vocabulary(["Ay", ",", "sir", "\\n"]))
    >>> decode(field, [4, 5, 6, 7, 4])
    'Ay, sir\\nAy'
    """
    newline = _newline(field.units)
    lines: list[list[str]] = [[]]
    for token in field.tokens(ids):
        if token == newline:
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(map(field.units.join, lines))


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Windows of a text.

    Args:
        inputs: (B, T) int32; the first is the left context's first token, padding is on the right.
        targets: (B, T) int32, the token after each input.
        scored: (B, T) bool, True at the targets that the window scores; False in the left context and at padding.
    """

    inputs: NDArray[np.int32]
    targets: NDArray[np.int32]
    scored: NDArray[np.bool_]

    def __iter__(self) -> Iterator[NDArray[np.int32] | NDArray[np.bool_]]:
        return iter((self.inputs, self.targets, self.scored))


class TextWindows:
    """A part of a text in windows that score `length` tokens each, with the `context` tokens before them.

    Every token is scored in exactly one window of an epoch, and sees at least `context` tokens before it, or all that
    there are; the context reaches back before the part. The first token of a text is predicted from `<s>`. Nothing is
    carried from batch to batch.

    Args:
        part: `text.train` or `text.held_out`.
        length: how many tokens a window scores.
        context: how many tokens the first of them sees, 1 or more.

    Raises:
        RegardError: for lengths below 1, or a part without tokens.

    >>> from regard.data.text import CharacterUnits
    >>> field = Field(Normalisation(), CharacterUnits(), Vocabulary("abcdef"))
    >>> whole = TextSpan(0, 5, 5, 1, 0)
    >>> text = RunningText(field, np.arange(4, 9, dtype=np.int32), whole, whole)
    >>> (batch,) = TextWindows(text, whole, length=3, context=2).in_order(batch_size=2)
    >>> batch.inputs
    array([[1, 4, 5, 0],
           [5, 6, 7, 0]], dtype=int32)
    >>> batch.targets * batch.scored
    array([[4, 5, 6, 0],
           [0, 7, 8, 0]], dtype=int32)
    """

    def __init__(self, text: RunningText, part: TextSpan, *, length: int, context: int) -> None:
        for name, number in (("length", length), ("context", context)):
            if number < 1:
                raise RegardError(f"{name}={number} must be at least 1 token.")
        if part.num_tokens < 1:
            raise RegardError("This part of the text has no tokens; hold some out, or give a file.")
        self.text, self.part, self.length, self.context = text, part, length, context

    def __len__(self) -> int:
        """The number of windows, of those `in_order`."""
        return math.ceil(self.part.num_tokens / self.length)

    def in_order(self, batch_size: int) -> Iterator[TextBatch]:
        """All windows in the order of the text."""
        edges = np.append(np.arange(self.part.start, self.part.stop, self.length), self.part.stop)
        windows = np.stack([edges[:-1], edges[1:]], 1)
        for first in range(0, len(windows), batch_size):
            yield self.batch(windows[first : first + batch_size])

    def shuffled(
        self, batch_size: int, *, seed: int, epoch: int, rank: int = 0, world_size: int = 1
    ) -> list[NDArray[np.int64]]:
        """The windows of each batch of an epoch: a pure function of its arguments.

        The text is cut at other places in every epoch, and the windows are in random order. Over all ranks each occurs
        exactly once, every rank has as many batches, and the sizes of batches differ by at most one window.

        Returns:
            for each batch of this rank an argument of `batch`, (B, 2) with B at most `batch_size`.

        Raises:
            RegardError: for a batch without windows, or a rank outside the world.
        """
        if batch_size < 1:
            raise RegardError(f"batch_size={batch_size} must be at least 1 window.")
        if not 0 <= rank < world_size:
            raise RegardError(f"rank must be at least 0 and below world_size={world_size}; got {rank}.")
        random = np.random.default_rng((seed, epoch))
        start, stop = self.part.start, self.part.stop
        first = start + int(random.integers(1, self.length + 1))
        edges = np.concatenate(([start], np.arange(first, stop, self.length), [stop]))
        windows = random.permutation(np.stack([edges[:-1], edges[1:]], 1))
        batches = math.ceil(math.ceil(len(windows) / batch_size) / world_size) * world_size
        return np.array_split(windows, batches)[rank::world_size]

    def batch(self, windows: NDArray[np.int64]) -> TextBatch:
        """The windows that score the tokens from windows[:, 0] to windows[:, 1], excluded, of the text."""
        width = self.context + self.length - 1
        inputs = np.full((len(windows), width), PAD, np.int32)
        targets = np.full((len(windows), width), PAD, np.int32)
        scored = np.zeros((len(windows), width), np.bool_)
        ids = self.text.ids
        for row, (start, stop) in enumerate(windows.tolist()):
            first = max(start - self.context, BEGINNING)
            count = stop - 1 - first
            targets[row, :count] = ids[first + 1 : stop]
            inputs[row, 1:count] = ids[first + 1 : stop - 1]
            inputs[row, 0] = BOS if first == BEGINNING else ids[first]
            scored[row, start - first - 1 : count] = True
        return TextBatch(inputs, targets, scored)


class _Marks:
    """After each line: how many tokens, characters and words there are up to it."""

    def __init__(self) -> None:
        self._numbers = array("q", (0, 0, 0))

    def __len__(self) -> int:
        return len(self._numbers) // 3

    def add(self, tokens: int, characters: int, words: int) -> None:
        """A mark at `tokens`, further characters and words after the last."""
        self._numbers.extend((tokens, self._numbers[-2] + characters, self._numbers[-1] + words))

    def table(self) -> NDArray[np.int64]:
        """(marks, 3)."""
        return np.array(self._numbers, dtype=np.int64).reshape(-1, 3)


class _Reader:
    """Ids of texts in the order in which their symbols first occur."""

    def __init__(self, units: Units, normalise: Callable[[str], str]) -> None:
        self.units, self.normalise = units, normalise
        self.symbols: dict[str, int] = {}
        self.marks = _Marks()
        self._ids = array("i")

    @property
    def ids(self) -> NDArray[np.int32]:
        """The ids of all tokens."""
        return np.frombuffer(self._ids, dtype=np.int32) if self._ids else np.zeros(0, np.int32)

    def add(self, paths: Sequence[Path]) -> None:
        """Appends the texts of files."""
        for path in paths:
            ends = True
            before = len(self._ids)
            for piece in _decodable_lines(path) if is_collecting() else _pieces(path):
                ends = piece.endswith(NEWLINE)
                lines = piece.split(NEWLINE)
                for line in lines[:-1]:
                    self._append(line, ended=True)
                if lines[-1]:
                    self._append(lines[-1], ended=False)
            if len(self._ids) == before:
                raise DataError(f"{path} has no text.")
            if not ends and path != paths[-1]:
                self._append("", ended=True)

    def _append(self, line: str, *, ended: bool) -> None:
        tokens = _line(self.units, self.normalise, line)
        if ended:
            tokens.append(_newline(self.units))
        symbols = self.symbols
        self._ids.extend([symbols.setdefault(token, len(symbols)) for token in tokens])
        self.marks.add(len(self._ids), len(line) + ended, len(line.split()))


def _pieces(path: Path) -> Iterator[str]:
    """The text of a file in pieces that end with white space, where there is any; lines end with `\\n`."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    num_lines, rest = 0, ""
    with open_text(path) as file:
        offset = file.tell()
        while True:
            block = file.read(BLOCK_BYTES)
            waiting = len(decoder.getstate()[0])
            try:
                rest += decoder.decode(block, not block)
            except UnicodeDecodeError as error:
                line = num_lines + error.object[: error.start].count(b"\n") + 1
                where = f"byte {offset - waiting + error.start + 1} of the file"
                raise not_utf8(f"{path}:{line}", error.object, error.start, where=where) from None
            offset += len(block)
            num_lines += block.count(b"\n")
            if not block:
                break
            end = rest.rfind(NEWLINE) + 1 or rest.rfind(" ") + 1
            if not end and len(rest) > LONGEST_BLOCK:
                end = len(rest)
            if end:
                yield rest[:end].replace("\r\n", NEWLINE)
                rest = rest[end:]
    if rest:
        yield rest.replace("\r\n", NEWLINE)


def _decodable_lines(path: Path) -> Iterator[str]:
    """The lines of a file that are UTF-8, with their ends; the others are defects."""
    lines = Lines(path)
    with open_text(path) as file:
        ends = not len(lines) or bool(file.seek(-1, os.SEEK_END) and file.read() == b"\n")
    for index in range(len(lines)):
        text = None
        with item_or_defect:
            text = lines[index]
        if text is not None:
            yield text + NEWLINE * (ends or index < len(lines) - 1)


def _paths(paths: Path | str | Sequence[Path | str]) -> list[Path]:
    listed = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    if not listed:
        raise DataError("A running text needs a file; the list of files is empty.")
    return listed


def _nearest(marks: NDArray[np.int64], token: float) -> int:
    """The mark that is nearest to a token, the earlier one of two."""
    return int(np.abs(marks[:, 0] - token).argmin())


def _newline(units: Units) -> str:
    """The symbol of a line's end: that of the units, or `\\n` where they leave out white space."""
    return (units.split(NEWLINE) or [NEWLINE])[0]


def _line(units: Units, normalise: Callable[[str], str], line: str) -> list[str]:
    """The symbols of a line without its end; white space around it stays as it is."""
    body = line.strip()
    if body:
        start = line.index(body)
        body = line[:start] + normalise(body) + line[start + len(body) :]
    return units.split(body or line)


def _split(units: Units, normalise: Callable[[str], str], text: str) -> Iterator[str]:
    """The symbols of a text, line by line."""
    for number, line in enumerate(text.split(NEWLINE)):
        if number:
            yield _newline(units)
        yield from _line(units, normalise, line)
