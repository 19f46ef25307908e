"""A plain convolutional network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.vision.backbone import AbstractBackbone, Window, positive
from regard.models.vision.convolution import ImageConvolution, MaximumPool, Plane
from regard.models.vision.norms import NormName
from regard.shapes import Bool, Float


class PlainBackbone(AbstractBackbone):
    """Stages of 3 × 3 convolutions, each with a norm and a relu, and a maximum over 2 × 2 cells after every stage.

    The stride is 2 to the number of stages.

    Args:
        channels: of the images.
        widths: of the convolutions of each stage.
        depth: convolutions in a stage.
        norm: none, batch, group or layer.

    Raises:
        ConfigError: for sizes below 1, no stage or an unknown norm.

    >>> import torch
    >>> PlainBackbone(1, widths=(8, 16))(torch.zeros(2, 1, 30, 41))[0].shape
    torch.Size([2, 16, 8, 11])
    """

    def __init__(
        self,
        channels: int = 1,
        *,
        widths: Sequence[int] = (32, 64, 128),
        depth: int = 2,
        norm: NormName = "batch",
    ) -> None:
        super().__init__()
        if not widths:
            raise ConfigError("widths must name at least one stage.")
        positive(channels=channels, depth=depth, widths=min(widths))
        self.channels = channels
        self.output_size = widths[-1]
        self.stride = 2 ** len(widths)
        sizes = [channels, *widths]
        self.stages = nn.ModuleList(
            nn.ModuleList(
                ImageConvolution(sizes[i] if layer == 0 else width, width, 3, norm=norm) for layer in range(depth)
            )
            for i, width in enumerate(widths)
        )
        self.pool = MaximumPool(2, 2)

    def features(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None) -> Plane:
        for stage in self.stages:
            assert isinstance(stage, nn.ModuleList)
            for layer in stage:
                x, mask = layer(x, mask)
            x, mask = self.pool(x, mask)
        return x, mask

    def windows(self) -> Iterable[Window]:
        for stage in self.stages:
            assert isinstance(stage, nn.ModuleList)
            yield from [(3, 1)] * len(stage)
            yield 2, 2
