"""An encoder and a decoder: a sequence-to-sequence model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Generator, Tensor, nn

from regard.attention.contract import Tree
from regard.models.contract import DecoderOutput
from regard.shapes import Bool, Int


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
        """The decoder's memory of a batch of sources, which is all that a search needs.

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
            inputs: (B, T) ids or (B, T, F) values: [BOS] and the target but its last.
            mask: (B, S) bool, True at real source positions.
            source_ids, extension: for copying, as in `Encoded`.
        """
        memory = self.prepare(source, mask, source_ids=source_ids, extension=extension)
        return self.decoder(inputs, memory, alignment=alignment, generator=generator)
