"""Pieces of words, learned by sentencepiece (extra `regard[text]`)."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError, UnsupportedError
from regard.lazy import optional

LONGEST_PIECE = 16
"""The most characters of a piece."""
PIECES_OF_WORDS, MOST_PIECES = 13.5, 32_000
"""The factor of the square root of the number of words, and the most pieces unless there are more characters."""
EXTRA_PIECES = 100
"""The fewest pieces besides the single characters."""
BLANK = "▁"
"""The character for a space in pieces."""
LONGEST_WORD, WORD = 12, 4
"""Runs of more than 12 characters occur in scripts without blanks, where 4 characters count as a word."""


def suggested_pieces(texts: Iterable[str], *, max_length: int | None = None, every: int = 1) -> int:
    """The number of pieces to learn from texts, 13.5 · √(number of words), so that most pieces are frequent.

    29,000 sentences of 12 words give about 8,000 pieces, 300 sentences 810. In scripts without blanks (runs of more
    than 12 characters) four characters count as a word. The number is at most 32,000, but at least 100 above the number
    of characters, each of which needs a piece. It is rounded up to two digits.

    Args:
        texts: normalised texts.
        max_length: as in `SentencePieceUnits.train`.
        every: how many texts there are for each of these.

    >>> suggested_pieces(["the cat sat on the mat and looked at the other cat"] * 300)
    810
    """
    words = 0.0
    characters: set[str] = set()
    for text in _learnable(texts, max_length):
        characters.update(text)
        words += sum(1 if len(word) <= LONGEST_WORD else len(word) / WORD for word in text.split())
    pieces = max(min(PIECES_OF_WORDS * math.sqrt(every * words), MOST_PIECES), len(characters) + EXTRA_PIECES)
    unit = 10 ** (len(str(math.ceil(pieces))) - 2)
    return math.ceil(pieces / unit) * unit


def _learnable(texts: Iterable[str], max_length: int | None) -> Iterator[str]:
    """The non-empty texts of at most `max_length` pieces of the largest size."""
    limit = math.inf if max_length is None else LONGEST_PIECE * max_length
    return (text for text in texts if 0 < len(text) <= limit)


class SentencePieceUnits:
    """Pieces of words that include white space, so that joining restores the text.

    A run of spaces counts as one space, and so does `▁` (U+2581), the character for a space in pieces.

    Args:
        model: the bytes of a sentencepiece model.
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = _library().SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise DataError(f"Not a sentencepiece model ({len(model):,} bytes): {error}") from None

    @classmethod
    def read(cls, path: Path | str) -> SentencePieceUnits:
        """The units of a model file."""
        try:
            model = Path(path).read_bytes()
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
        try:
            return cls(model)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @classmethod
    def train(
        cls, texts: Iterable[str], *, num_pieces: int | None = None, max_length: int | None = None
    ) -> SentencePieceUnits:
        """Learns a unigram model (Kudo 2018, https://arxiv.org/abs/1804.10959); the same texts give the same bytes.

        Args:
            texts: normalised texts.
            num_pieces: the most pieces; the texts may yield fewer. If None, `suggested_pieces`, for which the texts are
                read twice and, unless they are a collection, kept in memory.
            max_length: texts that need more pieces are left out, as learning from a text of a million characters takes
                minutes.

        Raises:
            ConfigError: if the texts are empty, or have more characters than `num_pieces`.
        """
        library = _library()
        writer = io.BytesIO()
        failures: list[BaseException] = []
        if num_pieces is None:
            texts = texts if isinstance(texts, Collection) else list(texts)
            num_pieces = suggested_pieces(texts, max_length=max_length)

        def sentences() -> Iterator[str]:
            try:
                yield from _learnable(texts, max_length)
            except BaseException as error:
                failures.append(error)
                raise

        try:
            _interruptible(
                lambda: library.SentencePieceTrainer.train(
                    sentence_iterator=sentences(),
                    model_writer=writer,
                    model_type="unigram",
                    vocab_size=num_pieces,
                    hard_vocab_limit=False,
                    character_coverage=1.0,
                    normalization_rule_name="identity",
                    max_sentencepiece_length=LONGEST_PIECE,
                    max_sentence_length=1 << 30,
                    unk_id=0,
                    bos_id=-1,
                    eos_id=-1,
                    pad_id=-1,
                    num_threads=1,
                    minloglevel=2,
                )
            )
        except RuntimeError as error:
            if failures:
                raise failures[0] from None
            raise ConfigError(
                f"sentencepiece cannot learn {num_pieces:,} pieces from these texts: {error}\n"
                "  Every character needs a piece: raise vocabulary_size, or use units: character.",
                ("vocabulary_size",),
            ) from None
        return cls(writer.getvalue())

    @property
    def inventory(self) -> tuple[str, ...] | None:
        """The pieces of texts, without the model's control symbols."""
        model = self._processor
        return tuple(
            model.IdToPiece(i)
            for i in range(model.GetPieceSize())
            if not (model.IsControl(i) or model.IsUnknown(i) or model.IsUnused(i))
        )

    def split(self, text: str) -> list[str]:
        return list(self._processor.EncodeAsPieces(text))

    def join(self, tokens: Sequence[str]) -> str:
        return str(self._processor.DecodePieces(list(tokens)))

    def words(self, tokens: Sequence[str], text: str | None = None) -> list[int]:
        """As `Units.words`: a piece that begins with `▁` begins a word; `▁` alone belongs to the next word.

        With the text, other blanks such as U+00A0, which are characters of pieces, separate words too.

        Raises:
            UnsupportedError: for a piece of several words, which some models have (`split_by_whitespace`).
        """
        if text is not None and (words := _words_of(text, tokens)) is not None:
            return words
        numbers, number, is_open = [], -1, False
        for token in tokens:
            if BLANK in token.lstrip(BLANK):
                raise UnsupportedError(
                    f"The piece {token!r} spans several words, so pieces cannot be assigned to words."
                )
            starts = token.startswith(BLANK) or number < 0
            number += starts and not is_open
            is_open = bool(token) and not token.strip(BLANK)
            numbers.append(number)
        while is_open and numbers and not tokens[len(numbers) - 1].strip(BLANK):
            numbers.pop()
        return numbers + [-1] * (len(tokens) - len(numbers))

    def __reduce__(self) -> tuple[type[SentencePieceUnits], tuple[bytes]]:
        return type(self), (self.model,)


def _words_of(text: str, tokens: Sequence[str]) -> list[int] | None:
    """The run of the text that contains each piece.

    None if the characters differ from the text, as some models replace them, or if a piece spans several runs.
    """
    numbers = [number for number, word in enumerate(text.split()) for _ in word]
    written = ["".join(token.replace(BLANK, " ").split()) for token in tokens]
    if "".join(written) != "".join(text.split()):
        return None
    words, start = [], 0
    for characters in written:
        spanned = set(numbers[start : start + len(characters)])
        start += len(characters)
        if len(spanned) > 1:
            return None
        after = numbers[start] if start < len(numbers) else -1
        words.append(spanned.pop() if spanned else after)
    return words


def _interruptible(work: Callable[[], None]) -> None:
    """Runs a function in another thread, so that Ctrl-C interrupts this one."""
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if failures:
        raise failures[0]


def _library() -> Any:
    return optional("sentencepiece", "units: sentencepiece needs")
