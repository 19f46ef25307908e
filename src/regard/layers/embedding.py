"""Token embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.shapes import Float, Int


class TokenEmbedding(nn.Module):
    """Vectors for token ids; the padding token's vector is zero and never learns.

    An id at or above `num_embeddings` is embedded as `unknown`: the extended ids of a pointer, which name source
    tokens outside the vocabulary, can be fed back as they are.

    Args:
        num_embeddings: N, the vocabulary.
        size: D.
        padding: the padding token's id, or None.
        unknown: the id that stands for extended ids.
        dropout: probability that an element is dropped in training.
    """

    def __init__(
        self, num_embeddings: int, size: int, *, padding: int | None = 0, unknown: int = 3, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(num_embeddings, size, padding_idx=padding)
        nn.init.normal_(self.table.weight, std=size**-0.5)
        if padding is not None:
            with torch.no_grad():
                self.table.weight[padding].zero_()
        self.unknown = unknown
        self.dropout = Dropout(dropout)

    @property
    def size(self) -> int:
        """D, the width of a vector."""
        return self.table.embedding_dim

    def forward(self, ids: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows D"]:
        """Vectors of ids."""
        return self.dropout(self.table(self.in_vocabulary(ids)))

    def in_vocabulary(self, ids: Int[Tensor, "*rows"]) -> Int[Tensor, "*rows"]:
        """The ids, `unknown` for extended ones."""
        return torch.where(ids < self.table.num_embeddings, ids, self.unknown)
