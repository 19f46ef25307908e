"""The encoders of Tacotron 1 and 2."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.layers import CBHG, CellStack, ConvolutionBlock, Prenet, RecurrentStack
from regard.models.contract import Encoded
from regard.shapes import Bool, Float, Int, keep_right_padding


class ConvolutionalEncoder(nn.Module):
    """Tacotron 2's encoder: embedding, convolutions, and a recurrent layer in both directions.

    Padding has no effect: a sentence has the same memory in any batch (in training, up to batch statistics).

    Args:
        embedding: from ids (B, S) to (B, S, E).
        convolutions: blocks (`ConvolutionBlock`), one after the other.
        stack: over their features; usually a bidirectional `RecurrentStack`.

    Source: Shen et al. 2018 (arXiv 1712.05884), section 2.2.
    """

    embedding: Any

    def __init__(
        self, embedding: nn.Module, convolutions: list[ConvolutionBlock], stack: RecurrentStack | BidirectionalCells
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.convolutions = nn.ModuleList(convolutions)
        self.stack = stack

    @property
    def output_size(self) -> int:
        """M, the width of the memory."""
        return self.stack.output_size

    def encode(self, inputs: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """Encodes a batch of texts, right-padded; the mask is True at real symbols. An empty text gives zeros.

        Raises:
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        mask = keep_right_padding(inputs, mask, name="inputs")
        x = self.embedding(inputs)
        for block in self.convolutions:
            x = block(x, mask)
        memory, final = self.stack(x, mask=mask)
        return Encoded(memory, mask, final)

    def forward(self, inputs: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """As `encode`."""
        return self.encode(inputs, mask)


class CbhgEncoder(nn.Module):
    """Tacotron 1's encoder: embedding, prenet and CBHG. Padding has no effect.

    Args:
        embedding: from ids (B, S) to (B, S, E).
        prenet: over the embeddings.
        cbhg: over its features.

    Source: Wang et al. 2017 (arXiv 1703.10135), section 3.2.
    """

    embedding: Any

    def __init__(self, embedding: nn.Module, prenet: Prenet, cbhg: CBHG) -> None:
        super().__init__()
        self.embedding = embedding
        self.prenet = prenet
        self.cbhg = cbhg

    @property
    def output_size(self) -> int:
        """M, the width of the memory."""
        return self.cbhg.output_size

    def encode(self, inputs: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """Encodes a batch of texts, right-padded; the mask is True at real symbols. An empty text gives zeros.

        Raises:
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        mask = keep_right_padding(inputs, mask, name="inputs")
        x = self.prenet(self.embedding(inputs))
        x = x if mask is None else x.masked_fill(~mask[..., None], 0)
        memory, final = self.cbhg(x, mask)
        return Encoded(memory, mask, final)

    def forward(self, inputs: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """As `encode`."""
        return self.encode(inputs, mask)


class BidirectionalCells(nn.Module):
    """Two stacks of cells (`CellStack`) over a sequence, the second from its end: an encoder's layer with zoneout.

    Args:
        forward_cells, backward_cells: one for each direction.

    >>> cells = BidirectionalCells(CellStack(3, 4, zoneout=0.1), CellStack(3, 4, zoneout=0.1))
    >>> cells(torch.zeros(2, 5, 3))[0].shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, forward_cells: CellStack, backward_cells: CellStack) -> None:
        super().__init__()
        self.forward_cells = forward_cells
        self.backward_cells = backward_cells

    @property
    def output_size(self) -> int:
        """The width of the outputs, both directions together."""
        return self.forward_cells.output_size + self.backward_cells.output_size

    def forward(
        self, inputs: Float[Tensor, "B S F"], mask: Bool[Tensor, "B S"] | None = None
    ) -> tuple[Float[Tensor, "B S D"], Any]:
        """Outputs, zeros at padding, and both directions' final states, the forward one first.

        Args:
            mask: right-padded, True at real positions; all if None.
        """
        forward, last = self.forward_cells(inputs, mask=mask)
        order = _reversed(inputs, mask)
        backward, first = self.backward_cells(_gathered(inputs, order), mask=mask)
        return torch.cat([forward, _gathered(backward, order)], -1), (last, first)


def _reversed(inputs: Tensor, mask: Tensor | None) -> Int[Tensor, "B S"]:
    """The positions of each sentence in reverse order; padding stays in place."""
    positions = torch.arange(inputs.shape[1], device=inputs.device).expand(inputs.shape[:2])
    if mask is None:
        return positions.flip(1)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)


def _gathered(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(1, order[..., None].expand_as(x))
