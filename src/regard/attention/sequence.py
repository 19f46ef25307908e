"""A sequence that attends to itself."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from regard.attention.contract import Attended
from regard.attention.divided import Divided
from regard.attention.mechanism import Mechanism
from regard.layers import recorders
from regard.shapes import Bool, Float, Int, keep_mask


class SelfAttention(nn.Module):
    """A mechanism whose queries and memory are the same sequence, for use without a decoder.

    The contexts and alignments of padding are zero.

    >>> import torch
    >>> from regard.attention import self_attention
    >>> attention = SelfAttention(self_attention(size=8, num_heads=2))
    >>> attended = attention(torch.randn(2, 5, 8), lengths=torch.tensor([5, 3]), alignment=True)
    >>> attended.context.shape, attended.alignment.shape
    (torch.Size([2, 5, 8]), torch.Size([2, 2, 5, 5]))
    """

    def __init__(self, mechanism: Mechanism | Divided) -> None:
        super().__init__()
        self.mechanism = mechanism

    @property
    def context_size(self) -> int:
        """V."""
        return self.mechanism.context_size

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Bool[Tensor, "B T"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
        alignment: bool = False,
    ) -> Attended:
        """The context of every position (B, T, V), and the alignment (B, H, T, T) if requested.

        Args:
            mask: (B, T) bool, True at real positions.
            lengths: (B,) integers, instead of a mask.
        """
        real = keep_mask(x, mask, lengths)
        if real is not None:
            x = x.masked_fill(~real[..., None], 0)
        memory = self.mechanism.prepare(x, mask=real)
        if real is None:
            return self.mechanism(x, memory, alignment=alignment)[0]

        def without_padding(weights: Tensor) -> Tensor:
            return weights.masked_fill(~real[:, None, :, None], 0)

        with recorders.changed(without_padding):
            attended: Attended = self.mechanism(x, memory, alignment=alignment)[0]
        return replace(
            attended,
            context=attended.context.masked_fill(~real[..., None], 0),
            alignment=None if attended.alignment is None else without_padding(attended.alignment),
        )
