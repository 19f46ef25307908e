"""Running text as one long sequence of ids, and windows of it."""

from __future__ import annotations

import codecs
import math
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.defects import is_collecting, item_or_defect
from regard.data.lines import Lines
from regard.data.tally import MOST_NAMES
from regard.data.text.field import Field
from regard.data.text.normalisation import Normalisation
from regard.data.text.units import CharacterUnits, Units
from regard.data.text.vocabulary import BOS, PAD, SPECIALS, UNKNOWN, Vocabulary
from regard.data.text_file import not_utf8, open_text
from regard.errors import DataError, RegardError, counted

BLOCK_BYTES = 1 << 18
LONGEST_BLOCK = 1 << 24
"""The most bytes of a text without white space that are read at once."""
MOST_HELD_OUT = 200_000
"""The approximate number of tokens held out of a long text."""
PASSAGES = 8
"""The passages of a text of which a part is joined to another one."""
NEWLINE = "\n"
"""The symbol of a line's end for units without one."""
BEGINNING = -1
"""The position of `<s>`, before the first token of a text."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a running text.

    Args:
        start, stop: the range of its tokens.
        num_characters, num_words: of the original text, with line ends as characters and words between white space.
        num_unknown: the number of tokens that are not in the vocabulary.
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
        """The number of tokens."""
        return self.stop - self.start


@dataclass(frozen=True)
class RunningText:
    """A text of any length as ids, 4 bytes a token.

    Args:
        ids: (tokens,) int32.
        train, held_out: its parts; the held-out part follows and may be empty.
        lines: (lines + 1, 3) the numbers of tokens, characters and words before the first line and after each line;
            None if they are not kept.
    """

    field: Field
    ids: NDArray[np.int32]
    train: TextSpan
    held_out: TextSpan
    lines: NDArray[np.int64] | None = None

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
        keep_lines: bool = False,
    ) -> RunningText:
        """Reads text files in UTF-8, one after the other, in one pass.

        Lines are normalised one by one and keep the white space at their ends. A line's end is a separate symbol. The
        vocabulary is learned from the training part only.

        Args:
            paths: a file, or several in order; a missing line end between them is added.
            held_out: the share of the tokens, from the end, that is held out; `suggested_share` if None; or files. The
                cut is at the end of the nearest line (at white space in a very long line), where characters and words
                can be counted.
            units: characters if None.
            normalisation: `Normalisation()` if None.
            vocabulary: that of the units, or learned, if None.
            min_count, max_symbols: as in `Vocabulary.build`.
            keep_lines: whether the ends of lines are kept.

        Raises:
            DataError: for a file that is missing, empty, damaged or not UTF-8, and for a text that is too short.
        """
        units = CharacterUnits() if units is None else units
        if isinstance(held_out, float) and not 0 <= held_out < 1:
            raise DataError(f"held_out={held_out:g} must be a share, at least 0 and below 1, or a file.")
        normalise = Normalisation() if normalisation is None else normalisation
        reader = _Reader(units, normalise)
        files = _paths(paths)
        reader.add(files)
        cut = len(reader.marks) - 1
        if held_out is None:
            held_out = suggested_share(len(reader.ids))
        if not isinstance(held_out, float | int):
            reader.add(_paths(held_out))
        ids, marks = reader.ids, reader.marks
        if isinstance(held_out, float | int):
            cut = int(np.abs(marks[:, 0] - (1 - held_out) * len(ids)).argmin())
            if held_out and not 0 < cut < len(marks) - 1:
                raise DataError(
                    f"{', '.join(map(str, files))}: {counted(len(ids), 'token|tokens')} with "
                    f"{counted(max(len(marks) - 2, 0), 'line end|ends')} to cut at are too few to hold out "
                    f"{held_out:g} of them.\n"
                    "  Give a file of held-out text, or hold nothing out."
                )
        if vocabulary is None and units.inventory is not None:
            vocabulary = Vocabulary(units.inventory)
        if vocabulary is None:
            counts = np.bincount(ids[: marks[cut, 0]], minlength=len(reader.symbols)).tolist()
            by_symbol = dict(zip(reader.symbols, counts, strict=True))
            vocabulary = Vocabulary.of_counts(by_symbol, min_count=max(min_count, 1), max_symbols=max_symbols)
        if not vocabulary.symbols:
            raise DataError(f"{', '.join(map(str, files))}: no symbol occurs {min_count} times; lower min_count.")
        symbols = list(reader.symbols)
        renumbered = vocabulary.ids(symbols).astype(np.int32)
        parts = []
        for first, last in ((0, cut), (cut, len(marks) - 1)):
            (start, characters, words), (stop, *ends) = marks[first].tolist(), marks[last].tolist()
            unknowns = np.where(renumbered == UNKNOWN, np.bincount(ids[start:stop], minlength=len(symbols)), 0)
            frequent = [i for i in np.argsort(-unknowns, kind="stable")[:MOST_NAMES].tolist() if unknowns[i]]
            unknown = tuple((symbols[i], int(unknowns[i])) for i in frequent)
            parts.append(TextSpan(start, stop, ends[0] - characters, ends[1] - words, int(unknowns.sum()), unknown))
        return cls(
            Field(normalise, units, vocabulary), renumbered[ids], parts[0], parts[1], marks if keep_lines else None
        )

    def of(self, field: Field) -> RunningText:
        """The same text with the ids of another field with the same units; its unknown symbols become `<unk>`."""
        symbols = self.field.vocabulary.symbols
        numbers = np.concatenate([np.arange(len(SPECIALS)), field.vocabulary.ids(symbols)]).astype(np.int32)
        ids = numbers[self.ids]

        def counted_again(span: TextSpan) -> TextSpan:
            return replace(span, num_unknown=int((ids[span.start : span.stop] == UNKNOWN).sum()))

        return replace(
            self, field=field, ids=ids, train=counted_again(self.train), held_out=counted_again(self.held_out)
        )

    def joined(self, other: RunningText, *, train: float, dev: float) -> RunningText:
        """This text followed, in both of its parts, by passages of another one, whose symbols it has.

        Args:
            train, dev: the shares of the other text.
        """
        other, ids, spans = other.of(self.field), list[NDArray[np.int32]](), list[TextSpan]()
        for own, further, share in ((self.train, other.train, train), (self.held_out, other.held_out, dev)):
            number = round(share * further.num_tokens)
            pieces, start = [self.ids[own.start : own.stop]], sum(map(len, ids))
            for first, stop in _passages(further.num_tokens, number):
                pieces.append(other.ids[further.start + first : further.start + stop])
            ids.append(np.concatenate(pieces))
            characters, words = (
                getattr(own, name) + round(share * getattr(further, name)) for name in ("num_characters", "num_words")
            )
            unknown = int((ids[-1] == UNKNOWN).sum())
            spans.append(TextSpan(start, start + len(ids[-1]), characters, words, unknown, own.unknown))
        return replace(self, ids=np.concatenate(ids), train=spans[0], held_out=spans[1])

    def encode(self, text: str) -> NDArray[np.int64]:
        """The ids of a text, for example of a prompt."""
        return self.field.vocabulary.ids(split_text(self.field, text))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        return decode(self.field, ids)


def _passages(count: int, number: int) -> list[tuple[int, int]]:
    """Ranges of `number` of `count` tokens, evenly spaced.

    >>> _passages(80, 80), _passages(80, 16)[:2]
    ([(0, 80)], [(0, 2), (10, 12)])
    """
    if number >= count:
        return [(0, count)]
    edges = [(count * i // PASSAGES, number * i // PASSAGES) for i in range(PASSAGES + 1)]
    return [(start, start + b - a) for (start, a), (_, b) in pairwise(edges) if b > a]


def suggested_share(num_tokens: int) -> float:
    """The share of a text to hold out: a tenth, but at most about 200,000 tokens.

    >>> suggested_share(1_000_000), suggested_share(100_000_000)
    (0.1, 0.002)
    """
    return min(0.1, float(f"{MOST_HELD_OUT / max(num_tokens, 1):.2g}"))


def split_text(field: Field, text: str) -> list[str]:
    """The symbols of running text, including unknown ones; lines are normalised and split one by one.

    >>> from regard.data.text import WordUnits
    >>> split_text(Field(Normalisation(), WordUnits(), Vocabulary(["a"])), "Ay, sir\\n")
    ['Ay', ',', 'sir', '\\n']
    """
    symbols: list[str] = []
    for number, line in enumerate(text.split(NEWLINE)):
        symbols += [_newline(field.units)] * (number > 0)
        symbols += _line(field.units, field.normalisation, line)
    return symbols


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
        inputs: (B, T) int32, from the first token of the left context, with padding on the right.
        targets: (B, T) int32, the token after each input.
        scored: (B, T) bool, True at targets that the window scores; False in the left context and padding.
    """

    inputs: NDArray[np.int32]
    targets: NDArray[np.int32]
    scored: NDArray[np.bool_]

    def __iter__(self) -> Iterator[NDArray[np.int32] | NDArray[np.bool_]]:
        return iter((self.inputs, self.targets, self.scored))


class TextWindows:
    """A part of a text in windows that score `length` tokens each, after `context` tokens of left context.

    Every token is scored in exactly one window of an epoch, after at least `context` earlier tokens, or all of them;
    the context may begin before the part. The first token of a text is predicted from `<s>`. No state is carried from
    batch to batch.

    Args:
        part: `text.train` or `text.held_out`.
        length: the number of scored tokens of a window.
        context: the number of tokens before the first of them, at least 1.

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
        """The number of windows of `in_order`."""
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

        The edges differ in every epoch, and the windows are in random order. Over all ranks each window occurs exactly
        once, every rank has as many batches, and the sizes of batches differ by at most one window.

        Returns:
            For each batch of this rank an argument of `batch`, (B, 2) with B at most `batch_size`.

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
        """The windows that score the tokens in the ranges `windows`, (B, 2)."""
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


class _Reader:
    """Texts as ids that are assigned to symbols in the order of their first occurrence."""

    def __init__(self, units: Units, normalise: Callable[[str], str]) -> None:
        self.units, self.normalise = units, normalise
        self.symbols: dict[str, int] = {}
        self._marks = array("q", (0, 0, 0))
        self._ids = array("i")

    @property
    def marks(self) -> NDArray[np.int64]:
        """(lines + 1, 3): the numbers of tokens, characters and words before the first line and after each line."""
        return np.array(self._marks, dtype=np.int64).reshape(-1, 3)

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
        characters, words = self._marks[-2] + len(line) + ended, self._marks[-1] + len(line.split())
        self._marks.extend((len(self._ids), characters, words))


def _pieces(path: Path) -> Iterator[str]:
    """The text of a file in pieces that end with white space if possible, with line ends `\\n`."""
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


def _newline(units: Units) -> str:
    """The symbol of a line's end: that of the units, or `\\n` if they leave out white space."""
    return (units.split(NEWLINE) or [NEWLINE])[0]


def _line(units: Units, normalise: Callable[[str], str], line: str) -> list[str]:
    """The symbols of a line without its end; surrounding white space is not normalised."""
    body = line.strip()
    if body:
        start = line.index(body)
        body = line[:start] + normalise(body) + line[start + len(body) :]
    return units.split(body or line)
