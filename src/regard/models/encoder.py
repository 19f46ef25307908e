"""Encoders: from a source to what decoders look at."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.layers import RecurrentStack
from regard.models.contract import Encoded
from regard.shapes import Bool, keep_mask


class RecurrentEncoder(nn.Module):
    """A recurrent stack over embedded inputs: h_1 … h_S, and every layer's last state.

    Right on padded and unsorted batches: padded positions are zero in the memory, and the final state is that of each
    row's own last (backward: first) real position. A row without any position has a state of zeros.

    Args:
        embedding: from inputs (B, S) ids or (B, S, F) values to (B, S, E).
        stack: over E features; mostly bidirectional.
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
        """Encodes a batch of sources, right-padded where the mask (True at real positions) says so.

        Raises:
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        mask = keep_mask(inputs, mask, name="inputs")
        memory, final = self.stack(self.embedding(inputs), mask=mask)
        return Encoded(memory, mask, final)

    def explain(self) -> str:
        """Which way a batch takes and why."""
        return self.stack.explain()

    def forward(self, inputs: Tensor, mask: Bool[Tensor, "B S"] | None = None) -> Any:
        """As `encode`."""
        return self.encode(inputs, mask)
