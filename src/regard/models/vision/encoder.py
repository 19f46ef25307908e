"""The encoder of images, from pixels to a memory with a position for every cell, and its multiply-adds."""

from __future__ import annotations

import copy
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
from regard.models.vision.positions import LearnedPlanePositions, SinusoidalPlanePositions
from regard.shapes import Bool, Float

PositionsName = Literal["sinusoidal", "normalised_sinusoidal", "learned"]
Precision = Literal["float32", "bfloat16"]
POSITIONS: tuple[PositionsName, ...] = ("sinusoidal", "normalised_sinusoidal", "learned")


class ImageEncoder(nn.Module):
    """Images (B, C, H, W) to a memory (B, S, M) of their S = h · w cells: m_s = dropout(W_m f_yx + b_m + p_yx).

    f are the backbone's features, p the positions, s = y · w + x. A cell covers `stride` by `stride` pixels and is real
    if any of them is. Padding is to the right of an image and below it and counts nowhere: an image has the same memory
    alone and in any batch (in training, up to the statistics of batch normalisation), and its own cells ⌈H / stride⌉ by
    ⌈W / stride⌉. Other masks are taken too: what is not real is read as 0.

    Args:
        backbone: from images to features.
        positions: p: `sinusoidal`, `normalised_sinusoidal`, `learned`, a module that is called as they are, or None.
        size: M; None takes the backbone's features as they are.
        dropout: of the memory, in training.
        max_grid: the rows and columns of cells of learned positions.
        precision: the type that the backbone computes in, in training; `bfloat16` is faster. Weights, gradients of
            weights, statistics and the memory keep the type of the weights, and evaluation computes in it.
        freeze: whether the backbone keeps its weights and its statistics: it gets no gradients and is always in
            evaluation mode.

    Raises:
        ConfigError: for an option of another value, or positions of an odd M.

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
        """How many pixels to the right and down of a cell's middle the middle of what its features depend on lies."""
        return self.backbone.shift

    @property
    def channels(self) -> int:
        """C, of the images."""
        return self.backbone.channels

    def train(self, mode: bool = True) -> Self:
        """As of any module; a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.freeze:
            self.backbone.eval()
        return self

    def encode(self, images: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B H W"] | None = None) -> Encoded:
        """Encodes a batch of images; whatever stands at padding is not read.

        Args:
            mask: True at real pixels; all if None.

        Raises:
            ShapeError: for images or a mask of another shape or type, or larger images than learned positions.
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
    """With channels last in memory, also where there is one channel, of which torch takes any order for the same."""
    if images.shape[1] == 1:
        return images.reshape(len(images), *images.shape[2:], 1).permute(0, 3, 1, 2)
    return images.contiguous(memory_format=torch.channels_last)


def multiply_adds(network: ImageEncoder | AbstractBackbone, height: int, width: int) -> float:
    """Multiply-adds of the forward pass over an image of this size, in billions (10^9).

    Those of convolutions and products are counted; norms, activations and positions are not. The backward pass has
    about twice as many. Nothing is computed.

    >>> from regard.models.vision import PlainBackbone
    >>> round(multiply_adds(PlainBackbone(1, widths=(10,), depth=1), 100, 200) * 1e9)  # 100 · 200 · 10 · 9
    1800000
    """
    shadow: Any = copy.deepcopy(network).to("meta").eval()
    dtype = next(shadow.parameters()).dtype
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        shadow(torch.empty(1, network.channels, height, width, dtype=dtype, device="meta"))
    return counter.get_total_flops() / 2e9
