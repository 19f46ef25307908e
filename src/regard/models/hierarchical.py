"""Classifiers of documents: hierarchical, over sentences of words, or flat, over all words."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import ShapeError, UnsupportedError
from regard.layers import Cell, Dropout, RecurrentStack, TokenEmbedding
from regard.layers.items import current, drawing
from regard.layers.linear import Linear
from regard.models.contract import Encoded
from regard.models.pooling import Pooled, Pooling, PoolingKind
from regard.shapes import Bool, Float, Int, describe


@dataclass(frozen=True, slots=True)
class DocumentOutput:
    """The output for a batch of documents.

    Args:
        logits: (B, C), one for each label, for a softmax with a single label or a sigmoid with several.
        alignments: by level. `word` (B, H, S, W): in a hierarchy the weights of each sentence's words sum to 1, in a
            flat network those of all words of a document. `sentence` (B, H, S): sums to 1; only in a hierarchy.
            Exactly 0 at padding and at sentences without words. A level that pools without weights is absent.
    """

    logits: Tensor
    alignments: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def word_weights(self) -> Float[Tensor, "B S W"] | None:
        """The weights of words, the mean of the heads; None if the level has no weights."""
        return self.alignments["word"].mean(1) if "word" in self.alignments else None

    @property
    def sentence_weights(self) -> Float[Tensor, "B S"] | None:
        """The weights of sentences, the mean of the heads; None without such a level or weights."""
        return self.alignments["sentence"].mean(1) if "sentence" in self.alignments else None


class Level(nn.Module):
    """One level of a hierarchy: a recurrent stack over each sequence of vectors, pooled to one vector.

    Args:
        stack: over the vectors; None pools the vectors themselves.
        pooling: over the stack's outputs.

    Raises:
        UnsupportedError: for the last state without a stack.
    """

    def __init__(self, stack: RecurrentStack | None, pooling: Pooling) -> None:
        super().__init__()
        if stack is None and pooling.kind == "last":
            raise UnsupportedError(
                "pooling 'last' needs the last states of a recurrent stack; give one, or use 'mean'."
            )
        self.stack = stack
        self.pooling = pooling

    @property
    def context_size(self) -> int:
        """V, the width of the vector of a sequence."""
        return self.pooling.context_size

    def forward(self, vectors: Float[Tensor, "B S F"], mask: Bool[Tensor, "B S"]) -> Pooled:
        """Contexts (B, V) and weights (B, H, S) of right-padded sequences."""
        if self.stack is None:
            pooled: Pooled = self.pooling(Encoded(vectors.masked_fill(~mask[..., None], 0), mask))
            return pooled
        memory, final = self.stack(vectors, mask=mask)
        pooled = self.pooling(Encoded(memory, mask, final))
        return pooled


class DocumentClassifier(nn.Module):
    """Documents of sentences of words (B, S, W) to logits (B, C).

    With a sentence level it is a hierarchy: the words w_i1 … w_iW of sentence i become its vector s_i, and the vectors
    of the sentences the document's vector v, each by a recurrent stack and pooling; the logits are W_c v + b_c:

        h_it = stack(E w_i1 … E w_iW)_t,  s_i = Σ_t α_it h_it;   h_i = stack(s_1 … s_S)_i,  v = Σ_i α_i h_i.

    Without one it is flat: the words of all sentences are one sequence, which is pooled to v.

    Sentences without words are ignored and have the weight 0. A document without words has v = 0. Padding may be
    anywhere; neither it nor the other documents of a batch change a document's result, except by rounding. Only real
    words are embedded, and only real sentences are encoded.

    Args:
        embedding: from ids (B, N) to (B, N, E).
        word: the level over words.
        num_labels: C.
        sentence: the level over the sentences' vectors; None for a flat network.
        dropout: of v, and of s_i before the sentence level. With draws by item (`layers.items.drawing`), a document's
            masks are the same in any batch.

    Source: Yang et al. 2016, Hierarchical Attention Networks for Document Classification (aclanthology N16-1174),
    section 2.2. Their L sentences of T words are our S and W; the number of labels is our C.

    >>> import torch
    >>> model = hierarchical_attention(9, 3)
    >>> documents = torch.tensor([[[4, 5, 6], [7, 0, 0]], [[8, 4, 0], [0, 0, 0]]])  # (B=2, S=2, W=3)
    >>> output = model(documents, documents != 0)
    >>> output.logits.shape, output.word_weights.shape, output.sentence_weights[1].tolist()
    (torch.Size([2, 3]), torch.Size([2, 2, 3]), [1.0, 0.0])
    """

    def __init__(
        self,
        embedding: nn.Module,
        word: Level,
        num_labels: int,
        *,
        sentence: Level | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.word = word
        self.sentence = sentence
        self.dropout = Dropout(dropout)
        self.head = Linear((sentence or word).context_size, num_labels)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self, ids: Int[Tensor, "B S W"], mask: Bool[Tensor, "B S W"], *, in_place: bool = False
    ) -> DocumentOutput:
        """The logits (B, C) and the weights of each level.

        Args:
            ids: (B, S, W), of words.
            mask: (B, S, W), True at real words.
            in_place: computes padding, too, so that no value of the mask is read, which would wait for a GPU. Words and
                sentences must be right-padded, a flat network reads one sentence, and the embedding must be a
                `TokenEmbedding`.

        Raises:
            ShapeError: if the mask has another shape or type.
        """
        _check(ids, mask)
        if in_place:
            return self._in_place(ids, mask)
        batch, sentences, words = mask.shape
        real = _leading(mask.flatten(1).sum(1))  # (B, N): all words of a document, without padding between them
        flat = ids.new_zeros(real.shape).masked_scatter(real, ids[mask])
        vectors = self.embedding(flat)
        if self.sentence is None:
            pooled = self.word(vectors, real)
            alignments = {}
            if pooled.alignment is not None:
                spread = _spread(pooled.alignment, real, mask.flatten(1))
                alignments["word"] = spread.unflatten(2, (sentences, words))
            return DocumentOutput(self.head(self.dropout(pooled.context)), alignments)
        filled = mask.any(-1)  # (B, S): the sentences
        inner = _leading(mask.sum(-1)[filled])  # (R, W'): the words of each of the R sentences
        packed = _scattered(vectors[real], inner)
        with _drawing_sentences(filled):
            of_words = self.word(packed, inner)
        outer = _leading(filled.sum(1))  # (B, S')
        of_sentences = self.sentence(self.dropout(_scattered(of_words.context, outer)), outer)
        alignments = {}
        if of_words.alignment is not None:
            weights = _spread(of_words.alignment, inner, mask[filled])  # (R, H, W)
            heads = weights.shape[1]
            every = weights.new_zeros(batch, sentences, heads, words)
            alignments["word"] = every.masked_scatter(filled[:, :, None, None], weights).transpose(1, 2)
        if of_sentences.alignment is not None:
            alignments["sentence"] = _spread(of_sentences.alignment, outer, filled)
        return DocumentOutput(self.head(self.dropout(of_sentences.context)), alignments)

    def _in_place(self, ids: Int[Tensor, "B S W"], mask: Bool[Tensor, "B S W"]) -> DocumentOutput:
        """As `forward`, at the sizes of the inputs: for recorded steps only, as it predicts a fifth slower on a CPU."""
        batch, sentences, _ = mask.shape
        alignments = {}
        if self.sentence is None:
            whole = self.word(self.embedding(ids[:, 0]), mask[:, 0])
            if whole.alignment is not None:
                alignments["word"] = whole.alignment[:, :, None]
            return DocumentOutput(self.head(self.dropout(whole.context)), alignments)
        parents = torch.arange(batch, device=ids.device).repeat_interleave(sentences)  # (B · S,)
        numbers = torch.arange(sentences, device=ids.device).repeat(batch)
        inner, filled = mask.flatten(0, 1), mask.any(-1)
        # dropout of embeddings belongs to the place of a word in its document
        places = mask.flatten(1).cumsum(1).sub_(1).clamp_(min=0).view_as(inner)
        where = parents[:, None].expand_as(places).flatten(), places.flatten()
        vectors = self.embedding(ids.flatten(0, 1), where=where)
        draws = current()
        with drawing(None if draws is None else draws.divided(parents, numbers)):
            of_words = self.word(vectors, inner)
        of_sentences = self.sentence(self.dropout(of_words.context.unflatten(0, (batch, sentences))), filled)
        if of_words.alignment is not None:
            alignments["word"] = of_words.alignment.unflatten(0, (batch, sentences)).transpose(1, 2)
        if of_sentences.alignment is not None:
            alignments["sentence"] = of_sentences.alignment
        return DocumentOutput(self.head(self.dropout(of_sentences.context)), alignments)


def hierarchical_attention(
    num_embeddings: int,
    num_labels: int,
    *,
    embedding_size: int = 200,
    size: int = 50,
    attention_size: int = 100,
    num_heads: int = 1,
    cell: Cell = "gru",
    num_layers: int = 1,
    dropout: float = 0.0,
) -> DocumentClassifier:
    """The hierarchical attention network: bidirectional GRUs and attention over words, and again over sentences.

    The defaults are the paper's. Padding of ids is 0, as in `regard.data`.

    Args:
        num_embeddings: N, ids of words.
        num_labels: C.
        size: D, of each direction of both levels.
        attention_size: width of the compared vectors, all heads together.
        dropout: of embeddings, between layers, of the sentences' vectors and of the document's.

    Source: Yang et al. 2016 (aclanthology N16-1174).
    """

    def level(input_size: int) -> Level:
        stack = RecurrentStack(input_size, size, num_layers, cell=cell, bidirectional=True, dropout=dropout)
        return Level(stack, Pooling("attention", 2 * size, attention_size=attention_size, num_heads=num_heads))

    word = level(embedding_size)
    return DocumentClassifier(
        TokenEmbedding(num_embeddings, embedding_size, dropout=dropout),
        word,
        num_labels,
        sentence=level(word.context_size),
        dropout=dropout,
    )


def pooled_words(
    num_embeddings: int,
    num_labels: int,
    *,
    pooling: PoolingKind = "attention",
    embedding_size: int = 200,
    size: int = 50,
    attention_size: int = 100,
    num_heads: int = 1,
    cell: Cell | Literal["none"] = "gru",
    num_layers: int = 1,
    dropout: float = 0.0,
) -> DocumentClassifier:
    """A flat network: all words of a document in a bidirectional stack, and their outputs pooled.

    With cell none and pooling mean or maximum it pools the embeddings, as fastText and SWEM do.

    Args:
        num_embeddings: N, ids of words.
        num_labels: C.
        pooling: last, mean, maximum or attention.
        size: D, of each direction; without effect if cell is none.
        attention_size: width of the compared vectors of attention, all heads together.
        cell: of the stack; none leaves it out.
        dropout: of embeddings, between layers, and of the document's vector.

    Source: mean and maximum of embeddings: Shen et al. 2018, Baseline needs more love (arXiv 1805.09843).
    """
    stack = None
    if cell != "none":
        stack = RecurrentStack(embedding_size, size, num_layers, cell=cell, bidirectional=True, dropout=dropout)
    width = embedding_size if stack is None else stack.output_size
    level = Level(stack, Pooling(pooling, width, attention_size=attention_size, num_heads=num_heads))
    embedding = TokenEmbedding(num_embeddings, embedding_size, dropout=dropout)
    return DocumentClassifier(embedding, level, num_labels, dropout=dropout)


def _check(ids: Tensor, mask: Tensor) -> None:
    if ids.dim() == 3 and mask.shape == ids.shape and mask.dtype == torch.bool:
        return
    raise ShapeError(
        "ids and mask must be (B, S, W), documents of sentences of words; mask bool, True at real words.\n"
        + describe({"ids": ("B S W", ids), "mask": ("B S W", mask)})
        + ("\n  For documents that are not divided, use ids[:, None]." if ids.dim() == 2 else "")
    )


def _leading(lengths: Int[Tensor, " R"]) -> Bool[Tensor, "R N"]:
    """The mask of right-padded rows of these lengths."""
    longest = int(lengths.max()) if len(lengths) else 0
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


def _scattered(vectors: Float[Tensor, "N D"], mask: Bool[Tensor, "R S"]) -> Float[Tensor, "R S D"]:
    """Vectors, in order, at the True positions of a mask; zeros elsewhere."""
    return vectors.new_zeros(*mask.shape, vectors.shape[-1]).masked_scatter(mask[..., None], vectors)


def _spread(weights: Tensor, dense: Bool[Tensor, "R N"], sparse: Bool[Tensor, "R S"]) -> Float[Tensor, "R H S"]:
    """Weights (R, H, N) of packed positions, at their original places (R, S)."""
    packed = weights.transpose(1, 2)[dense]  # (positions, H)
    return _scattered(packed, sparse).transpose(1, 2)


def _drawing_sentences(filled: Bool[Tensor, "B S"]) -> AbstractContextManager[None]:
    """Inside the context, rows are sentences, and draws belong to their document and place."""
    draws = current()
    if draws is None:
        return drawing(None)
    place = (filled.long().cumsum(1) - 1)[filled]
    return drawing(draws.divided(filled.nonzero()[:, 0], place))
