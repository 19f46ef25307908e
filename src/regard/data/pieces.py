"""Pieces of words, learned by sentencepiece (extra `regard[text]`)."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError, UnsupportedError

NUM_PIECES = 4000


class SentencePieceUnits:
    """Pieces of words; white space is part of the pieces, so joining gives the text back.

    Runs of spaces count as one, and `▁` (U+2581), which stands for a space in pieces, is read as one.

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
        """Units of a model file."""
        try:
            model = Path(path).read_bytes()
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
        try:
            return cls(model)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @classmethod
    def train(cls, texts: Iterable[str], *, num_pieces: int = NUM_PIECES) -> SentencePieceUnits:
        """Learns a unigram model (Kudo 2018, https://arxiv.org/abs/1804.10959); the same texts give the same bytes.

        Args:
            texts: normalised texts.
            num_pieces: the most pieces; fewer where the texts do not yield as many.

        Raises:
            ConfigError: when the texts are empty or have more characters than there may be pieces.
        """
        library = _library()
        writer = io.BytesIO()
        failures: list[BaseException] = []

        def sentences() -> Iterator[str]:
            try:
                yield from filter(None, texts)
            except BaseException as error:
                failures.append(error)
                raise

        try:
            library.SentencePieceTrainer.train(
                sentence_iterator=sentences(),
                model_writer=writer,
                model_type="unigram",
                vocab_size=num_pieces,
                hard_vocab_limit=False,
                character_coverage=1.0,
                normalization_rule_name="identity",
                max_sentence_length=1 << 30,
                unk_id=0,
                bos_id=-1,
                eos_id=-1,
                pad_id=-1,
                num_threads=1,
                minloglevel=2,
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
        """The pieces that texts are made of; the model's own control symbols are not among them."""
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

    def __reduce__(self) -> tuple[type[SentencePieceUnits], tuple[bytes]]:
        return type(self), (self.model,)


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise UnsupportedError(
            "units: sentencepiece needs the sentencepiece package: pip install 'regard[text]'."
        ) from None
    return sentencepiece
