"""Documents as ids: split once, and copied into padded batches."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regard.data.documents import DocumentField, EncodedDocument
from regard.data.documents.field import Extent
from regard.data.text import PAD, Vocabulary


class EncodedDocuments:
    """The ids of many documents, concatenated in the smallest type.

    Args:
        lengths: (sentences,) words of each sentence.
        counts: (documents,) sentences of each document.
    """

    def __init__(self, flat: NDArray[np.integer], lengths: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        self.flat = flat
        self.lengths = lengths
        self.counts = counts
        self.first_sentences = np.cumsum(counts) - counts
        edges = np.concatenate([[0], np.cumsum(lengths)])
        self.starts = edges[self.first_sentences]
        self.words: NDArray[np.int64] = edges[self.first_sentences + counts] - self.starts
        """(documents,) words of each document."""

    @classmethod
    def of(cls, documents: Sequence[EncodedDocument]) -> EncodedDocuments:
        """The ids of encoded documents."""
        sentences = [ids for item in documents for ids in item.sentences]
        return cls(
            np.concatenate(sentences) if sentences else np.empty(0, np.int64),
            np.array([len(ids) for ids in sentences], dtype=np.int64),
            np.array([len(item.sentences) for item in documents], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.counts)

    def undivided(self) -> EncodedDocuments:
        """The same documents of one sentence each."""
        return EncodedDocuments(self.flat, self.words, np.ones_like(self.counts))

    def pad(self, indices: ArrayLike) -> tuple[Tensor, Tensor]:
        """Ids (B, S, W) of the documents with these indices and their mask, True at words."""
        chosen = np.asarray(indices, dtype=np.int64)
        counts = self.counts[chosen]
        is_sentence = np.arange(counts.max(initial=0)) < counts[:, None]
        lengths = np.zeros(is_sentence.shape, dtype=np.int64)
        lengths[is_sentence] = self.lengths[_ranges(self.first_sentences[chosen], counts)]
        mask = np.arange(lengths.max(initial=0)) < lengths[..., None]
        ids = np.full(mask.shape, PAD, dtype=np.int64)
        ids[mask] = self.flat[_ranges(self.starts[chosen], self.words[chosen])]
        return torch.from_numpy(ids), torch.from_numpy(mask)


class SplitDocuments:
    """The words of many documents, each distinct word stored once.

    Args:
        texts: raw texts; read once.
        field: splits them; its vocabulary is not used.
    """

    def __init__(self, texts: Iterable[str], field: DocumentField) -> None:
        numbers: dict[str, int] = {}
        flat, lengths, counts = array("I"), array("q"), array("q")
        self.extents: list[Extent] = []
        """Of each document."""
        for text in texts:
            sentences, divided, cut = field.split(text)
            for words in sentences:
                flat.extend([numbers.setdefault(word, len(numbers)) for word in words])
                lengths.append(len(words))
            counts.append(len(sentences))
            self.extents.append(Extent(len(sentences), divided, cut))
        self.symbols = tuple(numbers)
        """The distinct words, in order of their first occurrence."""
        self._flat = np.frombuffer(flat, np.uint32)
        self._lengths = np.frombuffer(lengths, np.int64)
        self._counts = np.frombuffer(counts, np.int64)

    @property
    def num_words(self) -> NDArray[np.int64]:
        """(documents,) words of each document."""
        edges = np.concatenate([[0], np.cumsum(self._lengths)])
        last = np.cumsum(self._counts)
        words: NDArray[np.int64] = edges[last] - edges[last - self._counts]
        return words

    @property
    def num_sentences(self) -> NDArray[np.int64]:
        """(documents,) sentences of each document."""
        return self._counts

    @property
    def frequencies(self) -> Mapping[str, int]:
        """How often each word occurs."""
        return dict(zip(self.symbols, np.bincount(self._flat, minlength=len(self.symbols)).tolist(), strict=True))

    def encoded(self, vocabulary: Vocabulary) -> EncodedDocuments:
        """The documents by the ids of a vocabulary."""
        ids = vocabulary.ids(self.symbols).astype(np.min_scalar_type(len(vocabulary) - 1))
        return EncodedDocuments(ids[self._flat], self._lengths, self._counts)


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ranges of these lengths from each start on, concatenated."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
