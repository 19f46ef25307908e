"""The encoder of images: from pixels to a memory with a position for every cell, with backbones by name."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError
from regard.layers import Dropout
from regard.layers.linear import Linear
from regard.models.contract import Encoded
from regard.models.vision.backbone import AbstractBackbone
from regard.models.vision.cells import drop_cells, keep_image_mask
from regard.models.vision.dense import DenseBackbone
from regard.models.vision.efficientnet import EfficientNetLite
from regard.models.vision.plain import PlainBackbone
from regard.models.vision.positions import LearnedPlanePositions, SinusoidalPlanePositions
from regard.models.vision.residual import ResidualBackbone
from regard.models.vision.resnet import DEPTHS, ResNet
from regard.shapes import Bool, Float

PositionsName = Literal["sinusoidal", "normalised_sinusoidal", "learned"]
Precision = Literal["float32", "bfloat16"]
POSITIONS: tuple[PositionsName, ...] = ("sinusoidal", "normalised_sinusoidal", "learned")
BACKBONES: dict[str, Callable[..., AbstractBackbone]] = {
    "plain": PlainBackbone,
    "residual": ResidualBackbone,
    "dense": DenseBackbone,
    "efficientnet-lite0": EfficientNetLite,
    **{f"resnet{depth}": partial(ResNet, depth) for depth in DEPTHS},
}
"""Every backbone by its name."""


class ImageEncoder(nn.Module):
    """Images (B, C, H, W) to a memory (B, S, M) of their S = h · w cells: m_s = dropout(W_m f_yx + b_m + p_yx).

    f are the backbone's features, p the positions, s = y · w + x. A cell covers `stride` by `stride` pixels and is real
    if any of them is. Padding, to the right of an image and below it, has no effect: an image has ⌈H / stride⌉ by
    ⌈W / stride⌉ cells and the same memory in any batch (in training, up to batch statistics). Other masks are allowed:
    masked pixels are read as 0.

    Args:
        backbone: from images to features.
        positions: p: `sinusoidal`, `normalised_sinusoidal`, `learned`, a module with the same arguments, or None.
        size: M; if None, the memory is the backbone's features.
        dropout: of the memory, in training.
        max_grid: the numbers of rows and columns of learned positions.
        precision: the dtype of the backbone's computation in training; `bfloat16` is faster. Weights, their gradients,
            statistics and the memory keep the dtype of the weights, as does evaluation.
        freeze: whether the backbone's weights and statistics are constant: no gradients, always evaluation mode.

    Raises:
        ConfigError: for an invalid option, or positions with an odd M.

    >>> import torch
    >>> from regard.models.vision import PlainBackbone
    >>> encoder = ImageEncoder(PlainBackbone(1, widths=(4, 8)), size=6)
    >>> images, mask = torch.rand(2, 1, 9, 14), torch.ones(2, 9, 14, dtype=torch.bool)
    >>> mask[1, :, 7:] = False
    >>> encoded = encoder.encode(images, mask)
    >>> encoded.memory.shape, encoded.grid, encoded.mask[1].view(encoded.grid)[0].tolist()
    (torch.Size([2, 12, 6]), (3, 4), [True, True, False, False])
    """

    def __init__(
        self,
        backbone: AbstractBackbone,
        *,
        positions: PositionsName | nn.Module | None = "sinusoidal",
        size: int | None = None,
        dropout: float = 0.0,
        max_grid: tuple[int, int] = (64, 128),
        precision: Precision = "float32",
        freeze: bool = False,
    ) -> None:
        super().__init__()
        if precision not in ("float32", "bfloat16"):
            raise ConfigError(f"precision={precision!r} must be float32 or bfloat16.")
        self.backbone = backbone
        self.output_size = backbone.output_size if size is None else size
        self.projection = None if size is None else Linear(backbone.output_size, size)
        if isinstance(positions, str):
            if positions not in POSITIONS:
                raise ConfigError(f"positions={positions!r} must be one of {', '.join(POSITIONS)}, or None.")
            positions = (
                LearnedPlanePositions(self.output_size, max_grid)
                if positions == "learned"
                else SinusoidalPlanePositions(self.output_size, normalised=positions == "normalised_sinusoidal")
            )
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.precision: Precision = precision
        self.freeze = freeze
        if freeze:
            backbone.requires_grad_(False).eval()

    @property
    def stride(self) -> int:
        """The side of a cell in pixels."""
        return self.backbone.stride

    @property
    def shift(self) -> float:
        """As of the backbone."""
        return self.backbone.shift

    @property
    def channels(self) -> int:
        """C, of the images."""
        return self.backbone.channels

    def train(self, mode: bool = True) -> Self:
        """As of every module, but a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.freeze:
            self.backbone.eval()
        return self

    def encode(self, images: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Encoded:
        """Encodes a batch of images; padding may have any values.

        Args:
            mask: True at real pixels; all if None.

        Raises:
            ShapeError: for images or a mask of another shape or type, or images larger than learned positions.
        """
        mask = keep_image_mask(images, mask, self.channels)
        weight = next(self.backbone.parameters(), images)
        reduced = self.precision == "bfloat16" and self.backbone.training
        working = torch.bfloat16 if reduced else weight.dtype
        features, cells = self.backbone(_channels_last(images.to(working)), mask)
        pixels = features.permute(0, 2, 3, 1).to(weight.dtype)
        grid = pixels.shape[1], pixels.shape[2]
        memory = pixels if self.projection is None else self.projection(pixels)
        if self.positions is not None:
            memory = memory + self.positions(grid, cells, memory)
        memory = drop_cells(self.dropout, memory.permute(0, 3, 1, 2)).permute(0, 2, 3, 1).flatten(1, 2)
        if cells is None:
            return Encoded(memory, grid=grid)
        cells = cells.flatten(1)
        return Encoded(memory.masked_fill(~cells[..., None], 0), cells, grid=grid)

    def forward(self, images: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Encoded:
        """As `encode`."""
        return self.encode(images, mask)


def _channels_last(images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
    """Images with channels last in memory, also for one channel, where torch does not distinguish the two formats."""
    if images.shape[1] == 1:
        return images.reshape(len(images), *images.shape[2:], 1).permute(0, 3, 1, 2)
    return images.contiguous(memory_format=torch.channels_last)


def backbone_named(name: str, *, channels: int, **options: Any) -> AbstractBackbone:
    """A backbone by its name in `BACKBONES`.

    Args:
        channels: of the images, 1 or 3.
        options: of the backbone.

    Raises:
        ConfigError: for an unknown name or option; the text lists the known ones.

    >>> backbone_named("plain", channels=1, widths=(8, 16)).stride
    4
    """
    if name not in BACKBONES:
        raise ConfigError(f"There is no backbone {name!r}. Backbones are {', '.join(BACKBONES)}.")
    make = BACKBONES[name]
    known = [key for key, x in inspect.signature(make).parameters.items() if x.kind == x.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise ConfigError(f"The backbone {name} has no option {option!r}. It has {', '.join(known)}.")
    return make(channels=channels, **options)


def multiply_adds(network: ImageEncoder | AbstractBackbone, height: int, width: int) -> float:
    """Multiply-adds of the forward pass over an image of this size, in billions (10^9).

    Convolutions and products are counted; norms, activations and positions are not. The backward pass has about twice
    as many. Nothing is computed.

    >>> from regard.models.vision import PlainBackbone
    >>> round(multiply_adds(PlainBackbone(1, widths=(10,), depth=1), 100, 200) * 1e9)  # 100 · 200 · 10 · 9
    1800000
    """
    shadow: Any = copy.deepcopy(network).to("meta").eval()
    dtype = next(shadow.parameters()).dtype
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        shadow(torch.empty(1, network.channels, height, width, dtype=dtype, device="meta"))
    return counter.get_total_flops() / 2e9
