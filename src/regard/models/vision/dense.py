"""DenseNet, the encoder of formulas in WAP and its successors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers import Dropout
from regard.models.vision.backbone import AbstractBackbone, Window, positive
from regard.models.vision.cells import drop_cells
from regard.models.vision.convolution import ImageConvolution, MaximumPool, MeanPool, Plane
from regard.models.vision.norms import NormName
from regard.ops.eligibility import kernel_reason
from regard.shapes import Bool, Float


class DenseBlock(nn.Module):
    """[x, g_1, …, g_L] with g_l = relu(norm(V_l ∗ relu(norm(W_l [x, g_1, …, g_{l-1}])))): 1 × 1 and 3 × 3 filters.

    The features of all layers are in one array, of which each layer reads the first and writes the next ones: nothing
    is copied, and autograd saves each once.

    Args:
        input_size: channels of x.
        growth: channels of each g_l; each W_l has four times as many.
        depth: L.
        norm: none, batch, group or layer.
        dropout: of the results of both convolutions, in training.
    """

    def __init__(
        self, input_size: int, growth: int, depth: int, *, norm: NormName = "batch", dropout: float = 0.0
    ) -> None:
        super().__init__()
        sizes = range(input_size, input_size + depth * growth, growth)
        self.output_size = input_size + depth * growth
        self.narrow = nn.ModuleList(ImageConvolution(size, 4 * growth, 1, norm=norm) for size in sizes)
        self.wide = nn.ModuleList(ImageConvolution(4 * growth, growth, 3, norm=norm) for _ in sizes)
        self.dropouts = nn.ModuleList(Dropout(dropout) for _ in range(2 * depth))

    def forward(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Plane:
        """The features of all layers, zero at padding, and the mask; x is zero at padding."""
        copies = kernel_reason(x) is not None
        pixels = x.permute(0, 2, 3, 1)
        array = pixels if copies else pixels.new_empty(*pixels.shape[:3], self.output_size, requires_grad=False)
        features = pixels if copies else _First.apply(pixels, array)  # type: ignore[no-untyped-call]
        layers = zip(self.narrow, self.wide, self.dropouts[::2], self.dropouts[1::2], strict=True)
        for narrow, wide, first, second in layers:
            inner, _ = narrow(features.permute(0, 3, 1, 2), mask)
            grown, _ = wide(drop_cells(first, inner), mask)
            grown = drop_cells(second, grown).permute(0, 2, 3, 1)
            if copies:
                features = torch.cat([features, grown], -1)
            else:
                features = _Appended.apply(features, grown, array)  # type: ignore[no-untyped-call]
        return features.permute(0, 3, 1, 2), mask


class _First(torch.autograd.Function):
    """Writes the first features into an array."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, array: Tensor) -> Tensor:
        # `data` hides changes from autograd: parts that earlier layers saved are never written again
        part = array.data[..., : first.shape[-1]]
        return part.copy_(first)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient, None


class _Appended(torch.autograd.Function):
    """Writes further features after the first ones of an array."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, further: Tensor, array: Tensor) -> Tensor:
        ctx.size = features.shape[-1]
        part = array.data[..., : ctx.size + further.shape[-1]]
        part[..., ctx.size :] = further
        return part

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient[..., : ctx.size], gradient[..., ctx.size :], None


class DenseBackbone(AbstractBackbone):
    """A 7 × 7 convolution and a maximum, both with stride 2, and dense blocks with transitions between them.

    A transition is a 1 × 1 convolution to `compression` times as many channels and a mean over 2 × 2 cells. The stride
    is 2 to the power of (num_blocks + 1). The first convolution has 2 · `growth` filters.

    Args:
        channels: of the images.
        growth: channels that each layer of a block adds.
        depth: layers of a block.
        compression: the share of the channels that a transition keeps.
        norm: none, batch, group or layer.
        dropout: after every convolution except the first, in training.

    Raises:
        ConfigError: for sizes below 1, a compression outside (0, 1], or an unknown norm.

    Source: Huang et al. 2017 (arXiv 1608.06993); Zhang et al. 2018 (arXiv 1801.03530), section 3.1, whose layers
    normalise after the convolutions as here, and which CoMER (arXiv 2207.04410) follows.

    >>> import torch
    >>> DenseBackbone(1, growth=4, depth=2)(torch.zeros(2, 1, 30, 41))[0].shape
    torch.Size([2, 16, 2, 3])
    """

    def __init__(
        self,
        channels: int = 1,
        *,
        growth: int = 24,
        depth: int = 16,
        num_blocks: int = 3,
        compression: float = 0.5,
        norm: NormName = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        positive(channels=channels, growth=growth, depth=depth, num_blocks=num_blocks)
        if not 0 < compression <= 1:
            raise ConfigError(f"compression={compression}, the share of channels that is kept, must be in (0, 1].")
        self.channels = channels
        self.stride = 2 ** (num_blocks + 1)
        self.depth = depth
        size = 2 * growth
        self.stem = ImageConvolution(channels, size, 7, stride=2, norm=norm)
        self.pool = MaximumPool(2, 2)
        blocks, transitions = [], []
        for block in range(num_blocks):
            if block:
                kept = max(1, int(size * compression))
                transitions.append(ImageConvolution(size, kept, 1, norm=norm))
                size = kept
            blocks.append(DenseBlock(size, growth, depth, norm=norm, dropout=dropout))
            size = blocks[-1].output_size
        self.blocks = nn.ModuleList(blocks)
        self.transitions = nn.ModuleList(transitions)
        self.dropouts = nn.ModuleList(Dropout(dropout) for _ in transitions)
        self.mean = MeanPool(2)
        self.output_size = size

    def features(self, x: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None) -> Plane:
        x, mask = self.pool(*self.stem(x, mask))
        x, mask = self.blocks[0](x, mask)
        for transition, dropout, block in zip(self.transitions, self.dropouts, self.blocks[1:], strict=True):
            x, mask = transition(x, mask)
            x, mask = block(*self.mean(drop_cells(dropout, x), mask))
        return x, mask

    def windows(self) -> Iterable[Window]:
        """The windows of the first convolution, the pools and the 3 × 3 filters."""
        yield from ((7, 2), (2, 2))
        for block in range(len(self.blocks)):
            yield from [(2, 2)] if block else []
            yield from [(3, 1)] * self.depth
