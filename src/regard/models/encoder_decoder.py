"""The recurrent encoder, and a sequence-to-sequence model of an encoder and a decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from regard.attention.contract import Tree
from regard.layers import PositionedEmbedding, RecurrentStack
from regard.models.contract import DecoderOutput, Encoded
from regard.shapes import Bool, Int, keep_mask


class RecurrentEncoder(nn.Module):
    """A recurrent stack over embedded inputs: the memory h_1 … h_S, and every layer's last state.

    Batches may be padded and unsorted: the memory is zero at padding, and the final state of each row is that of its
    last real position (its first in the backward direction), or zero for a row without positions.

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


class EncoderDecoder(nn.Module):
    """An encoder (`encode`) and a decoder (`prepare`, `initial_state`, `step`, `forward`)."""

    encoder: Any
    decoder: Any

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def prepare(
        self,
        source: Tensor,
        mask: Bool[Tensor, "B S"] | None = None,
        *,
        source_ids: Int[Tensor, "B S"] | None = None,
        extension: Bool[Tensor, "B X"] | None = None,
    ) -> Tree:
        """The decoder's memory of a batch of sources, as a search needs it.

        Args:
            source, mask: as in `forward`.
            source_ids, extension: for copying, as in `Encoded`.
        """
        encoded = self.encoder.encode(source, mask)
        if source_ids is not None:
            encoded = replace(encoded, source_ids=source_ids, extension=extension)
        return self.decoder.prepare(encoded)

    def forward(
        self,
        source: Tensor,
        inputs: Tensor,
        *,
        mask: Bool[Tensor, "B S"] | None = None,
        source_ids: Int[Tensor, "B S"] | None = None,
        extension: Bool[Tensor, "B X"] | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> DecoderOutput:
        """Teacher-forced outputs.

        Args:
            source: (B, S) ids or (B, S, F) values.
            inputs: (B, T) ids or (B, T, F) values: [BOS] and the target without its last.
            mask: (B, S) bool, True at real source positions.
            source_ids, extension: for copying, as in `Encoded`.
        """
        memory = self.prepare(source, mask, source_ids=source_ids, extension=extension)
        return self.decoder(inputs, memory, alignment=alignment, generator=generator)
