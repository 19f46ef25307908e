"""Every layer and encoder of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.models import vision
from support.cases.case import ImageEncoderCase, LayerCase, draw

_MASK = torch.zeros(3, 5, 6, dtype=torch.bool)
_MASK[0], _MASK[1, :3, :2], _MASK[2, :1] = True, True, True


def _of_image(name: str, make: Callable[[], nn.Module], *shows: Any) -> LayerCase:
    """A layer from (B, C, H, W) and a mask to such features and their mask."""
    inputs = draw(3, 2, 5, 6).masked_fill(~_MASK[:, None], 0)
    return LayerCase(name, shows, make, lambda: (inputs.clone(), _MASK), lambda layer, x, mask: layer(x, mask)[0])


def _of_pixels(make: Callable[[], nn.Module], kind: type) -> LayerCase:
    """A norm, whose channels are last."""
    return LayerCase(f"image norm {kind.__name__}", (kind,), make, lambda: (draw(3, 5, 6, 4), _MASK))


def _of_grid(name: str, make: Callable[[], nn.Module], kind: type) -> LayerCase:
    """Positions of cells."""
    return LayerCase(
        name,
        (kind,),
        make,
        lambda: (draw(3, 5, 6, 8), _MASK),
        lambda layer, x, mask: x + layer((5, 6), mask, x),
    )


_NORMS: tuple[vision.NormName, ...] = ("none", "batch", "group", "layer")
_BACKBONES: tuple[tuple[str, Callable[[], vision.AbstractBackbone], tuple[type, ...]], ...] = (
    *(
        (
            f"plain, {norm}",
            lambda norm=norm: vision.PlainBackbone(2, widths=(3, 4), depth=1, norm=norm),
            (vision.PlainBackbone,),
        )
        for norm in _NORMS
    ),
    *(
        (
            f"residual, {norm}",
            lambda norm=norm: vision.ResidualBackbone(2, widths=(4, 6), depths=(1, 1), norm=norm),
            (vision.ResidualBackbone,),
        )
        for norm in _NORMS
    ),
    (
        "residual, 7 × 7 and a pool",
        lambda: vision.ResidualBackbone(2, widths=(4,), depths=(2,), stem_kernel=7, pool=True),
        (vision.ResidualBackbone,),
    ),
    ("dense", lambda: vision.DenseBackbone(2, growth=3, depth=2), (vision.DenseBackbone,)),
    ("EfficientNet-Lite0 to stride 8", lambda: vision.EfficientNetLite(2, stride=8), (vision.EfficientNetLite,)),
    ("ResNet 18 to stride 8", lambda: vision.ResNet(18, 2, stride=8), (vision.ResNet,)),
)

IMAGE_LAYERS: tuple[LayerCase, ...] = (
    _of_pixels(lambda: vision.MaskedGroupNorm(4, 2), vision.MaskedGroupNorm),
    _of_pixels(lambda: vision.ChannelNorm(4), vision.ChannelNorm),
    *(
        _of_image(
            f"image convolution, {options}",
            lambda options=options: vision.ImageConvolution(2, 4, 3, **options),  # type: ignore[misc]
            vision.ImageConvolution,
        )
        for options in (
            {"norm": "none"},
            {"norm": "layer", "activation": "none"},
            {"stride": 2, "groups": 2, "before": 0, "activation": "relu6"},
        )
    ),
    _of_image("maximum of windows", lambda: vision.MaximumPool(2, 2), vision.MaximumPool),
    _of_image("maximum of windows that overlap", lambda: vision.MaximumPool(3, 2), vision.MaximumPool),
    _of_image("mean of windows", lambda: vision.MeanPool(2), vision.MeanPool),
    _of_image("residual block", lambda: vision.ResidualBlock(2, 3, stride=2), vision.ResidualBlock),
    _of_image("bottleneck block", lambda: vision.BottleneckBlock(2, 3), vision.BottleneckBlock),
    _of_image("dense block", lambda: vision.DenseBlock(2, 2, 2), vision.DenseBlock),
    _of_image(
        "inverted block",
        lambda: vision.InvertedBlock(2, 2, 3, stride=1, expansion=2),
        vision.InvertedBlock,
    ),
    *(
        _of_grid(
            f"sinusoidal positions of cells, {options}",
            lambda options=options: vision.SinusoidalPlanePositions(8, **options),  # type: ignore[misc]
            vision.SinusoidalPlanePositions,
        )
        for options in ({}, {"normalised": True})
    ),
    _of_grid(
        "learned positions of cells", lambda: vision.LearnedPlanePositions(8, (5, 6)), vision.LearnedPlanePositions
    ),
    *(_of_image(f"backbone, {name}", make, *shows) for name, make, shows in _BACKBONES[:9]),
)
"""The layers of image encoders."""

IMAGE_ENCODERS: tuple[ImageEncoderCase, ...] = tuple(
    ImageEncoderCase(
        f"image encoder, {name}",
        (vision.ImageEncoder, *shows),
        lambda make=make: vision.ImageEncoder(make(), size=6),  # type: ignore[misc]
    )
    for name, make, shows in _BACKBONES
)
