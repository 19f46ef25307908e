"""Encoders: from a source to the memory that decoders attend to."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers import PositionedEmbedding, RecurrentStack
from regard.models.contract import Encoded
from regard.shapes import Bool, keep_mask


class RecurrentEncoder(nn.Module):
    """A recurrent stack over embedded inputs: h_1 … h_S, and every layer's last state.

    Batches may be padded and unsorted: the memory is zero at padding, and the final state of each row is that of its
    last real position (of the backward direction: its first). A row without any position has a state of zeros.

    Args:
        embedding: from inputs (B, S) ids or (B, S, F) values to (B, S, E); a `PositionedEmbedding` adds positions.
        stack: over E features; usually bidirectional.
    """

    def __init__(self, embedding: nn.Module, stack: RecurrentStack) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack

    @property
    def output_size(self) -> int:
        """M, the width of the memory."""
        return self.stack.output_size

    def encode(self, inputs: Tensor, mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """Encodes a batch of sources, right-padded; the mask is True at real positions.

        Raises:
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        mask = keep_mask(inputs, mask, name="inputs")
        if mask is not None and inputs.is_floating_point():
            inputs = inputs.masked_fill(~mask[..., None], 0)
        if isinstance(self.embedding, PositionedEmbedding):
            embedded = self.embedding(inputs, torch.arange(inputs.shape[1], device=inputs.device))
        else:
            embedded = self.embedding(inputs)
        memory, final = self.stack(embedded, mask=mask)
        return Encoded(memory, mask, final)

    def forward(self, inputs: Tensor, mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """As `encode`."""
        return self.encode(inputs, mask)
