"""Encoders of images: convolutional networks in which padding has no effect."""

from regard.models.vision.backbone import AbstractBackbone
from regard.models.vision.cells import cell_mask
from regard.models.vision.convolution import ImageConvolution, MaximumPool, MeanPool
from regard.models.vision.dense import DenseBackbone, DenseBlock
from regard.models.vision.efficientnet import EfficientNetLite, InvertedBlock
from regard.models.vision.encoder import BACKBONES, ImageEncoder, backbone_named, multiply_adds
from regard.models.vision.norms import ChannelNorm, MaskedGroupNorm, NormName
from regard.models.vision.plain import PlainBackbone
from regard.models.vision.positions import LearnedPlanePositions, SinusoidalPlanePositions
from regard.models.vision.residual import ResidualBackbone, ResidualBlock
from regard.models.vision.resnet import BottleneckBlock, ResNet

__all__ = [
    "BACKBONES",
    "AbstractBackbone",
    "BottleneckBlock",
    "ChannelNorm",
    "DenseBackbone",
    "DenseBlock",
    "EfficientNetLite",
    "ImageConvolution",
    "ImageEncoder",
    "InvertedBlock",
    "LearnedPlanePositions",
    "MaskedGroupNorm",
    "MaximumPool",
    "MeanPool",
    "NormName",
    "PlainBackbone",
    "ResNet",
    "ResidualBackbone",
    "ResidualBlock",
    "SinusoidalPlanePositions",
    "backbone_named",
    "cell_mask",
    "multiply_adds",
]
