"""The network of sequence labelling: characters and tokens, a recurrent encoder, self-attention, a label per token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Mechanism
from regard.data.text import BOS, EOS, PAD
from regard.data.text.vocabulary import UNKNOWN
from regard.layers import Dropout, RecurrentStack, TokenEmbedding, TokenHead, items
from regard.models import Encoded, Pooling, RecurrentEncoder
from regard.shapes import Bool, Float, Int
from regard.tasks.build import build_encoder, build_mechanism
from regard.tasks.labelling.config import LabellingModel

CHARACTER_SIZE = 32
"""The size of the vector of a character."""
BASE = 1_000_003
"""b of `_numbers`: odd, so that every character affects the lower 32 bits."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """The features of tokens (B, S, D), and the weights of their attention, (B, H, S, S), or None."""

    features: Tensor
    alignment: Tensor | None = None


class CharacterReader(nn.Module):
    """The vector of a token from its characters: a bidirectional GRU, whose states are pooled by attention.

    Args:
        num_characters: N, the number of characters.
        size: state size of one direction; 0: vectors without features.
        dropout: on the embeddings of characters.
    """

    def __init__(self, num_characters: int, size: int, *, dropout: float) -> None:
        super().__init__()
        self.size = 2 * size
        self.reader: RecurrentEncoder | None = None
        self.pooling: Pooling | None = None
        if size:
            stack = RecurrentStack(CHARACTER_SIZE, size, 1, cell="gru", bidirectional=True)
            self.reader = RecurrentEncoder(TokenEmbedding(num_characters, CHARACTER_SIZE, dropout=dropout), stack)
            self.pooling = Pooling("attention", 2 * size, attention_size=size)

    def forward(self, words: Int[Tensor, "B S"], spelling: Int[Tensor, "N W"]) -> Float[Tensor, "B S D"]:
        """The vectors of tokens.

        Args:
            words: the row of `spelling` of each token; row 0 is padding.
            spelling: the characters of the distinct tokens of the batch.
        """
        if self.reader is None or self.pooling is None:
            return spelling.new_zeros((*words.shape, 0), dtype=torch.get_default_dtype())
        draws = items.current()
        with items.drawing(None if draws is None else draws.of(_numbers(spelling))):
            pooled: Tensor = self.pooling(self.reader.encode(spelling, spelling != PAD)).context
        return pooled[words]


def _numbers(spelling: Int[Tensor, "N W"]) -> Int[Tensor, " N"]:
    """For each word the number Σ_w id_w b^w modulo 2^64, which seeds its draws in any batch, with any padding."""
    powers = torch.full_like(spelling[0], BASE).cumprod(0)
    return (spelling * powers).sum(1)


class Labeller(nn.Module):
    """log p(label) at every token: h = encoder([token; characters]), c_i = Σ_j α_ij h_j, softmax(W [h_i; c_i]).

    Source: Lample et al. 2016 (arXiv 1603.01360) without its last layer, with self-attention.
    """

    def __init__(self, config: LabellingModel, *, num_tokens: int, num_characters: int, num_labels: int) -> None:
        super().__init__()
        encoder = config.encoder
        self.characters = CharacterReader(num_characters, config.character_size, dropout=encoder.dropout)
        self.embedding = TokenEmbedding(num_tokens, encoder.embedding_size, dropout=encoder.dropout)
        width = encoder.embedding_size + self.characters.size
        self.encoder = build_encoder(encoder.model_copy(update={"embedding_size": width}), nn.Identity)
        size = self.encoder.output_size
        self.attention: Mechanism | None = None
        if config.attention is not None:
            self.attention = build_mechanism(
                config.attention, query_size=size, memory_size=size, input_size=encoder.embedding_size
            )
        context_size = 0 if self.attention is None else self.attention.context_size
        self.dropout = Dropout(encoder.dropout)
        self.head = TokenHead(size + context_size, num_labels, never=(PAD, BOS, EOS, UNKNOWN))

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        words: Int[Tensor, "B S"],
        spelling: Int[Tensor, "N W"],
        mask: Bool[Tensor, "B S"],
        *,
        alignment: bool = False,
    ) -> Labelled:
        """The features that `head` turns into log-probabilities."""
        vectors = torch.cat([self.embedding(tokens), self.characters(words, spelling)], -1)
        encoded: Encoded = self.encoder.encode(vectors, mask)
        if self.attention is None:
            return Labelled(self.dropout(encoded.memory))
        memory = self.attention.prepare(encoded.memory, mask=encoded.mask)
        attended, _ = self.attention(encoded.memory, memory, alignment=alignment)
        return Labelled(self.dropout(torch.cat([encoded.memory, attended.context], -1)), attended.alignment)
