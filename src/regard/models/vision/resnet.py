"""ResNet 18, 34 and 50, with published weights."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.vision.backbone import AbstractBackbone, Window, positive
from regard.models.vision.convolution import ImageConvolution, MaximumPool, Plane
from regard.models.vision.published import convolution_names, load_published, read_safetensors
from regard.models.vision.residual import ResidualBlock
from regard.shapes import Bool, Float

DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
STRIDES = {8: 2, 16: 3, 32: 4}
"""The number of stages by stride."""
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colours of ImageNet's training images, as published weights assume."""


class BottleneckBlock(nn.Module):
    """relu(norm(W_3 ∗ relu(norm(W_2 ∗ relu(norm(W_1 ∗ x))))) + s(x)): 1 × 1, 3 × 3 with the stride, and 1 × 1 filters.

    s is as in `ResidualBlock`.

    Args:
        input_size: channels of x.
        size: channels of the 3 × 3 convolution; the result has four times as many.
        stride: the distance between two windows.

    Source: He et al. 2016 (arXiv 1512.03385), section 4.1; the stride is that of the 3 × 3 filters, as in torchvision.
    """

    def __init__(self, input_size: int, size: int, *, stride: int = 1) -> None:
        super().__init__()
        self.first = ImageConvolution(input_size, size, 1)
        self.second = ImageConvolution(size, size, 3, stride=stride)
        self.third = ImageConvolution(size, 4 * size, 1)
        changes = stride != 1 or input_size != 4 * size
        self.shortcut = ImageConvolution(input_size, 4 * size, 1, stride=stride, activation="none") if changes else None

    def forward(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Plane:
        """The features, zero at padding, and their mask; x is zero at padding."""
        residual = x if self.shortcut is None else self.shortcut(x, mask)[0]
        inner, inner_mask = self.second(*self.first(x, mask))
        outer: Plane = self.third(inner, inner_mask, residual)
        return outer


class ResNet(AbstractBackbone):
    """ResNet with batch norm: a 7 × 7 convolution and a maximum with stride 2 each, and stages of blocks.

    Args:
        depth: 18, 34 or 50 layers.
        channels: of the images, with values from 0 to 1; three channels are standardised as published weights assume.
        stride: 32 for all four stages, 16 or 8 for the first three or two.
        weights: a safetensors file with the names of torchvision, or None, for random weights. Filters over colours are
            summed for one channel.

    Raises:
        ConfigError: for another depth or stride, or no channels.
        DataError: for a missing or damaged file, or a missing weight.

    Source: He et al. 2016 (arXiv 1512.03385).
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self, depth: int = 18, channels: int = 3, *, stride: int = 32, weights: Path | str | None = None
    ) -> None:
        super().__init__()
        if depth not in DEPTHS:
            raise ConfigError(f"depth={depth} must be one of {', '.join(map(str, DEPTHS))}.")
        if stride not in STRIDES:
            raise ConfigError(f"stride={stride} must be one of {', '.join(map(str, STRIDES))}.")
        positive(channels=channels)
        self.channels = channels
        self.stride = stride
        self.register_buffer("mean", torch.tensor(MEAN if channels == 3 else [0.0])[:, None, None], persistent=False)
        deviation = torch.tensor(DEVIATION if channels == 3 else [1.0])
        self.register_buffer("deviation", deviation[:, None, None], persistent=False)
        self.stem = ImageConvolution(channels, 64, 7, stride=2)
        self.pool = MaximumPool(3, 2)
        size, stages = 64, []
        for stage, blocks in enumerate(DEPTHS[depth][: STRIDES[stride]]):
            width = 64 * 2**stage
            made: list[ResidualBlock | BottleneckBlock] = []
            for block in range(blocks):
                step = 2 if stage and not block else 1
                made.append(
                    BottleneckBlock(size, width, stride=step)
                    if depth == 50
                    else ResidualBlock(size, width, stride=step)
                )
                size = 4 * width if depth == 50 else width
            stages.append(nn.ModuleList(made))
        self.stages = nn.ModuleList(stages)
        self.output_size = size
        if weights is not None:
            load_published(self, read_safetensors(weights), self.published_names(), str(weights))

    def features(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None) -> Plane:
        if self.channels == 3:
            x = (x - self.mean.to(x.dtype)) / self.deviation.to(x.dtype)
            x = x if mask is None else x.masked_fill(~mask[:, None], 0)
        x, mask = self.pool(*self.stem(x, mask))
        for stage in self.stages:
            assert isinstance(stage, nn.ModuleList)
            for block in stage:
                x, mask = block(x, mask)
        return x, mask

    def windows(self) -> Iterable[Window]:
        yield from ((7, 2), (3, 2))
        for stage in self.stages:
            assert isinstance(stage, nn.ModuleList)
            for block in stage:
                assert isinstance(block, ResidualBlock | BottleneckBlock)
                last = (block.third,) if isinstance(block, BottleneckBlock) else ()
                yield from ((layer.kernel_size, layer.stride) for layer in (block.first, block.second, *last))

    def published_names(self) -> dict[str, str]:
        """The names of the weights in torchvision, by the names here."""
        names = convolution_names("stem", "conv1", "bn1")
        for i, stage in enumerate(self.stages):
            assert isinstance(stage, nn.ModuleList)
            for j, block in enumerate(stage):
                ours, theirs = f"stages.{i}.{j}", f"layer{i + 1}.{j}"
                for number, layer in enumerate(("first", "second", "third"), 1):
                    if hasattr(block, layer):
                        names |= convolution_names(f"{ours}.{layer}", f"{theirs}.conv{number}", f"{theirs}.bn{number}")
                if block.shortcut is not None:
                    names |= convolution_names(f"{ours}.shortcut", f"{theirs}.downsample.0", f"{theirs}.downsample.1")
        return names
