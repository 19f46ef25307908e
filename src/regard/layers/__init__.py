"""Layers: recurrent stacks, embeddings, positions, convolutions, feed-forward and output layers."""

from regard.layers.batch_norm import MaskedBatchNorm
from regard.layers.cbhg import CBHG, Highway
from regard.layers.cell_stack import CellStack, Zoneout
from regard.layers.cells.cell import Cell
from regard.layers.cells.reset_before import ResetBeforeGRU
from regard.layers.convolution import ConvolutionBlock, MaskedConvolution
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import Activation, FeedForward, Norm, Residual
from regard.layers.linear import Linear
from regard.layers.positions import (
    BlockedSinusoidalPositions,
    LearnedPositions,
    PositionedEmbedding,
    ScaledPositions,
    SinusoidalPositions,
)
from regard.layers.prenet import Prenet
from regard.layers.recurrent import RecurrentStack
from regard.layers.tokens import TokenEmbedding, TokenHead
from regard.layers.values import QuantileHead, ValueEmbedding, ValueHead

__all__ = [
    "CBHG",
    "Activation",
    "BlockedSinusoidalPositions",
    "Cell",
    "CellStack",
    "ConvolutionBlock",
    "Dropout",
    "FeedForward",
    "Highway",
    "LearnedPositions",
    "Linear",
    "MaskedBatchNorm",
    "MaskedConvolution",
    "Norm",
    "PositionedEmbedding",
    "Prenet",
    "QuantileHead",
    "RecurrentStack",
    "ResetBeforeGRU",
    "Residual",
    "ScaledPositions",
    "SinusoidalPositions",
    "TokenEmbedding",
    "TokenHead",
    "ValueEmbedding",
    "ValueHead",
    "Zoneout",
]
