"""Layers that models are built from: recurrent stacks, embeddings, positions, feed-forward and output layers."""

from regard.layers.cells.cell import Cell
from regard.layers.dropout import Dropout
from regard.layers.embedding import TokenEmbedding
from regard.layers.feed_forward import Activation, FeedForward, GatedFeedForward, Norm, Residual, feed_forward
from regard.layers.output import TokenHead
from regard.layers.positions import (
    BlockedSinusoidalPositions,
    LearnedPositions,
    PositionedEmbedding,
    ScaledPositions,
    SinusoidalPositions,
)
from regard.layers.recurrent import RecurrentStack
from regard.layers.values import QuantileHead, ValueEmbedding, ValueHead

__all__ = [
    "Activation",
    "BlockedSinusoidalPositions",
    "Cell",
    "Dropout",
    "FeedForward",
    "GatedFeedForward",
    "LearnedPositions",
    "Norm",
    "PositionedEmbedding",
    "QuantileHead",
    "RecurrentStack",
    "Residual",
    "ScaledPositions",
    "SinusoidalPositions",
    "TokenEmbedding",
    "TokenHead",
    "ValueEmbedding",
    "ValueHead",
    "feed_forward",
]
