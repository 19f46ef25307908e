"""Energies and what came before become weights (R, H, S)."""

from regard.attention.alignments.chunkwise import ChunkwiseAlignment
from regard.attention.alignments.exponential import ExponentialAlignment
from regard.attention.alignments.softmax import SoftmaxAlignment

__all__ = ["ChunkwiseAlignment", "ExponentialAlignment", "SoftmaxAlignment"]
