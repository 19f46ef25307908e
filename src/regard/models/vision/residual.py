"""A residual network of basic blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.vision.backbone import AbstractBackbone, Window, positive
from regard.models.vision.convolution import ImageConvolution, MaximumPool, Plane
from regard.models.vision.norms import NormName
from regard.shapes import Bool, Float


class ResidualBlock(nn.Module):
    """relu(norm(W_2 ∗ relu(norm(W_1 ∗ x))) + s(x)), with 3 × 3 filters, the first with the block's stride.

    s is the identity if sizes and stride allow it, else a 1 × 1 convolution with a norm.

    Args:
        input_size: channels of x.
        size: channels of the result.
        stride: the distance between two windows.
        norm: none, batch, group or layer.

    Source: He et al. 2016 (arXiv 1512.03385), section 3.3, shortcut B.
    """

    def __init__(self, input_size: int, size: int, *, stride: int = 1, norm: NormName = "batch") -> None:
        super().__init__()
        self.first = ImageConvolution(input_size, size, 3, stride=stride, norm=norm)
        self.second = ImageConvolution(size, size, 3, norm=norm)
        changes = stride != 1 or input_size != size
        self.shortcut = (
            ImageConvolution(input_size, size, 1, stride=stride, norm=norm, activation="none") if changes else None
        )

    def forward(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Plane:
        """The features, zero at padding, and their mask; x is zero at padding."""
        residual = x if self.shortcut is None else self.shortcut(x, mask)[0]
        inner, mask = self.first(x, mask)
        outer: Plane = self.second(inner, mask, residual)
        return outer


class ResidualBackbone(AbstractBackbone):
    """A 3 × 3 convolution with stride 2, and stages of basic blocks, of which all but the first halve the sides.

    The stride is 2 to the number of stages. With `pool`, a maximum over 3 × 3 cells halves the sides after the first
    convolution too, and the stride is twice that.

    Args:
        channels: of the images.
        widths: of the stages.
        depths: blocks of each stage.
        stem_kernel: the filter size of the first convolution.
        pool: whether a maximum follows it.
        norm: none, batch, group or layer.

    Raises:
        ConfigError: for sizes below 1, no stage, an unknown norm, or widths and depths of different lengths.

    Source: He et al. 2016 (arXiv 1512.03385).

    >>> import torch
    >>> ResidualBackbone(1, widths=(8, 16), depths=(1, 1))(torch.zeros(2, 1, 30, 41))[0].shape
    torch.Size([2, 16, 8, 11])
    """

    def __init__(
        self,
        channels: int = 1,
        *,
        widths: Sequence[int] = (32, 64, 128),
        depths: Sequence[int] = (2, 2, 2),
        stem_kernel: int = 3,
        pool: bool = False,
        norm: NormName = "batch",
    ) -> None:
        super().__init__()
        if not widths or len(widths) != len(depths):
            raise ConfigError(
                f"widths and depths must name the same stages, at least one; got {len(widths)} and {len(depths)}."
            )
        positive(channels=channels, widths=min(widths), depths=min(depths))
        self.channels = channels
        self.output_size = widths[-1]
        self.stride = 2 ** len(widths) * (2 if pool else 1)
        self.stem = ImageConvolution(channels, widths[0], stem_kernel, stride=2, norm=norm)
        self.pool = MaximumPool(3, 2) if pool else None
        blocks = []
        size = widths[0]
        for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            for block in range(depth):
                blocks.append(ResidualBlock(size, width, stride=2 if stage and not block else 1, norm=norm))
                size = width
        self.blocks = nn.ModuleList(blocks)

    def features(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None) -> Plane:
        x, mask = self.stem(x, mask)
        if self.pool is not None:
            x, mask = self.pool(x, mask)
        for block in self.blocks:
            x, mask = block(x, mask)
        return x, mask

    def windows(self) -> Iterable[Window]:
        yield self.stem.kernel_size, 2
        if self.pool is not None:
            yield 3, 2
        for block in self.blocks:
            assert isinstance(block, ResidualBlock)
            yield 3, block.first.stride
            yield 3, 1
