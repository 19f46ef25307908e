"""Encoders of images: convolutional networks in which padding never counts."""

from regard.models.vision.backbone import AbstractBackbone
from regard.models.vision.cells import cell_mask
from regard.models.vision.convolution import ImageConvolution
from regard.models.vision.encoder import ImageEncoder
from regard.models.vision.norms import ChannelNorm, MaskedGroupNorm
from regard.models.vision.plain import PlainBackbone
from regard.models.vision.pools import MaximumPool, MeanPool
from regard.models.vision.positions import LearnedPlanePositions, SinusoidalPlanePositions
from regard.models.vision.residual import ResidualBackbone, ResidualBlock

__all__ = [
    "AbstractBackbone",
    "ChannelNorm",
    "ImageConvolution",
    "ImageEncoder",
    "LearnedPlanePositions",
    "MaskedGroupNorm",
    "MaximumPool",
    "MeanPool",
    "PlainBackbone",
    "ResidualBackbone",
    "ResidualBlock",
    "SinusoidalPlanePositions",
    "cell_mask",
]
