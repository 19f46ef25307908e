"""Layers that models are built from: recurrent stacks, embeddings, output layers."""

from regard.layers.embedding import TokenEmbedding
from regard.layers.output import TokenHead
from regard.layers.recurrent import Cell, RecurrentStack

__all__ = ["Cell", "RecurrentStack", "TokenEmbedding", "TokenHead"]
