"""Documents as sentences of ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.documents.files import Document
from regard.data.documents.sentences import Sentences
from regard.data.finding import NUM_EXAMPLES, Finding, Severity
from regard.data.text.field import Field
from regard.data.text.normalisation import Normalisation
from regard.data.text.units import Units, WordUnits
from regard.data.text.vocabulary import PAD, Vocabulary
from regard.errors import DataError, RegardError, counted

SETTINGS = "{name}-sentences.json"
DEFAULT_RULES = Sentences()


@dataclass(frozen=True, slots=True)
class EncodedDocument:
    """A document as sentences of ids.

    Args:
        sentences: (words,) int64 for each sentence; none is empty.
        tokens: the words of each sentence.
        unknown: the words that are not in the vocabulary, in order.
        num_divided: the number of sentences that were divided because of their length.
        num_cut: the number of sentences beyond the limit, which were left out at the end.
        refusal: the reason why the document has no words because it could not be read; else empty.
    """

    sentences: tuple[NDArray[np.int64], ...]
    tokens: tuple[tuple[str, ...], ...]
    unknown: tuple[str, ...] = ()
    num_divided: int = 0
    num_cut: int = 0
    refusal: str = ""

    @property
    def num_sentences(self) -> int:
        """The number of sentences."""
        return len(self.sentences)

    @property
    def num_words(self) -> int:
        """The number of words of all sentences."""
        return sum(map(len, self.sentences))


@dataclass(frozen=True)
class DocumentField:
    """Sentences, words, and their ids; saved with the model.

    The raw text is split into sentences, as capitals mark their beginnings; each is then normalised and split into
    words. Longer sentences are divided into parts of about equal length, so that no words are lost; sentences beyond
    the limit are left out, which `EncodedDocument` and `document_findings` report.

    Args:
        words: normalisation, units and vocabulary of words.
        sentences: splits a text into sentences; None reads each document as one sentence.
        max_words: the most words of a sentence.
        max_sentences: the most sentences of a document, after division; no limit if None.

    >>> field = DocumentField.build(["It rained. Nobody came!"], max_words=2)
    >>> encoded = field.encode("Nobody rained. It")
    >>> encoded.tokens, encoded.num_divided
    ((('nobody',), ('rained', '.'), ('it',)), 1)
    """

    words: Field
    sentences: Sentences | None = DEFAULT_RULES
    max_words: int = 100
    max_sentences: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_words", self.max_words), ("max_sentences", self.max_sentences)):
            if value is not None and value < 1:
                raise RegardError(f"{name} must be at least 1; got {value}.")

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        *,
        normalisation: Normalisation | None = None,
        units: Units | None = None,
        min_count: int = 1,
        vocabulary_size: int | None = None,
        sentences: Sentences | None = DEFAULT_RULES,
        max_words: int = 100,
        max_sentences: int | None = None,
    ) -> DocumentField:
        """Learns the words of training texts.

        Args:
            texts: raw texts, read once.
            normalisation: lower case and NFC if None.
            units: words and punctuation marks if None.
            min_count: words that occur less often are left out.
            vocabulary_size: the most words; all if None.

        Raises:
            DataError: if no word is left.
        """
        units, normalisation = units or WordUnits(), normalisation or Normalisation(case="lower")
        field = cls(Field(normalisation, units, Vocabulary(())), sentences, max_words, max_sentences)
        if units.inventory is not None:
            learned = Vocabulary(units.inventory)
        else:
            learned = Vocabulary.build(
                ([word for words in field.split(text)[0] for word in words] for text in texts),
                min_count=min_count,
                max_symbols=vocabulary_size,
            )
        if not learned.symbols:
            raise DataError(f"No word of the documents occurs {min_count} times; lower min_count.")
        return cls(Field(normalisation, units, learned), sentences, max_words, max_sentences)

    def split(self, text: str) -> tuple[list[list[str]], int, int]:
        """The words of each sentence, and the numbers of divided and left-out sentences."""
        result: list[list[str]] = []
        divided = 0
        for sentence in [text] if self.sentences is None else self.sentences(text):
            words = self.words.split(sentence)
            if not words:
                continue
            parts = -(-len(words) // self.max_words)
            divided += parts > 1
            edges = [len(words) * i // parts for i in range(parts + 1)]
            result += [words[start:end] for start, end in pairwise(edges)]
        sentences = result[: self.max_sentences]
        return sentences, divided, len(result) - len(sentences)

    def encode(self, text: str) -> EncodedDocument:
        """The sentences of a raw text, with a list of the words that are not in the vocabulary."""
        if refusal := self.words.refusal(text):
            return EncodedDocument((), (), refusal=refusal)
        sentences, divided, cut = self.split(text)
        vocabulary = self.words.vocabulary
        return EncodedDocument(
            tuple(map(vocabulary.ids, sentences)),
            tuple(map(tuple, sentences)),
            tuple(word for words in sentences for word in vocabulary.unknown(words)),
            divided,
            cut,
        )

    def save(self, folder: Path | str, name: str) -> None:
        """Writes the words as `Field.save` does, and `name-sentences.json`."""
        self.words.save(folder, name)
        rules = self.sentences
        stored = {
            "format": 1,
            "newlines": None if rules is None else rules.newlines,
            "abbreviations": None if rules is None else sorted(rules.abbreviations),
            "max_words": self.max_words,
            "max_sentences": self.max_sentences,
        }
        path = Path(folder) / SETTINGS.format(name=name)
        path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, folder: Path | str, name: str) -> DocumentField:
        """Reads the files of `save`.

        Raises:
            DataError: if a file is missing, damaged or of a newer format.
        """
        path = Path(folder) / SETTINGS.format(name=name)
        try:
            stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if stored["format"] != 1:
                raise DataError(f"{path}: this version of regard reads format 1; got {stored['format']!r}.")
            rules = None
            if stored["newlines"] is not None:
                abbreviations = stored["abbreviations"]
                if not isinstance(abbreviations, list) or not all(isinstance(word, str) for word in abbreviations):
                    raise TypeError("`abbreviations` is not a list of texts")
                rules = Sentences(stored["newlines"], frozenset(abbreviations))
            limits = stored["max_words"], stored["max_sentences"]
            if not _is_limit(limits[0]) or not (limits[1] is None or _is_limit(limits[1])):
                raise TypeError(f"`max_words` and `max_sentences` are {limits[0]!r} and {limits[1]!r}")
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
        except DataError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not settings written by regard ({type(error).__name__}: {error}).") from None
        return cls(Field.load(folder, name), rules, *limits)


def _is_limit(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def pad_documents(documents: Sequence[EncodedDocument]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Ids (B, S, W) and their mask, True at words, padded to the most sentences and the longest sentence.

    For batches of similar cost use `bucket(words, sentences, batch_tokens=…)` with the numbers of words and of
    sentences of each document, as the models compute without padding.

    >>> ids, mask = pad_documents([EncodedDocument((np.array([5, 6]), np.array([7])), ())])
    >>> ids.tolist(), mask.tolist()
    ([[[5, 6], [7, 0]]], [[[True, True], [True, False]]])
    """
    num_sentences = max((len(item.sentences) for item in documents), default=0)
    num_words = max((len(words) for item in documents for words in item.sentences), default=0)
    ids = np.full((len(documents), num_sentences, num_words), PAD, dtype=np.int64)
    mask = np.zeros(ids.shape, dtype=np.bool_)
    for b, item in enumerate(documents):
        for s, words in enumerate(item.sentences):
            ids[b, s, : len(words)] = words
            mask[b, s, : len(words)] = True
    return ids, mask


@dataclass(frozen=True, slots=True)
class Extent:
    """The counts of an `EncodedDocument`, without its words."""

    num_sentences: int
    num_divided: int
    num_cut: int
    refusal: str = ""


def document_findings(documents: Sequence[Document], encoded: Sequence[EncodedDocument | Extent]) -> list[Finding]:
    """Findings about documents without words, divided and left-out sentences, and texts with different labels.

    Args:
        documents: as read.
        encoded: the same documents by `DocumentField.encode`, or their extents.
    """
    pairs = list(zip(documents, encoded, strict=True))
    refused = [d for d, e in pairs if e.refusal]
    empty = [d for d, e in pairs if not e.num_sentences and not e.refusal]
    cut, num_cut = [d for d, e in pairs if e.num_cut], sum(e.num_cut for e in encoded)
    too_many = counted(len(cut), "document|documents has|have too many sentences")
    divided, num_divided = [d for d, e in pairs if e.num_divided], sum(e.num_divided for e in encoded)
    too_long = counted(num_divided, "sentence|sentences was|were too long and divided")
    labels: dict[str, set[tuple[str, ...]]] = {}
    for item in documents:
        labels.setdefault(item.text, set()).add(item.labels)
    differing = [item for item in documents if len(labels[item.text]) > 1]
    kinds: tuple[tuple[Severity, list[Document], str], ...] = (
        ("warning", refused, counted(len(refused), "document|documents cannot be read")),
        ("warning", empty, counted(len(empty), f"of {len(pairs):,} documents has|have no words")),
        ("warning", cut, f"{too_many}; {counted(num_cut, 'sentence|sentences is|are left out')}"),
        ("info", divided, f"{too_long}, in {counted(len(divided), 'document|documents')}"),
        ("warning", differing, f"{len(differing):,} documents have the text of another one and other labels"),
    )
    return [
        Finding(severity, text, len(items), tuple(item.place for item in items[:NUM_EXAMPLES]))
        for severity, items, text in kinds
        if items
    ]
