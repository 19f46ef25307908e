"""Rows of right-padded sequences without their padding, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.shapes import Bool


@dataclass(frozen=True)
class Packing:
    """Where the N real positions of a batch (B, S) are: those of the first step, of the second, and so on.

    Args:
        batch, source: B and S.
        places: (B,) rows of the batch, the longest first.
        counts: rows that have a step, for every step that any has; they are the first ones of `places`.
        offsets: where a step's rows begin, and N.
        index: (N,) positions in (B · S).
    """

    batch: int
    source: int
    places: Tensor
    counts: list[int]
    offsets: list[int]
    index: Tensor

    @classmethod
    def of(cls, batch: int, source: int, mask: Bool[Tensor, "B S"] | None = None) -> Packing:
        """The packing of a right-padded mask; without one, of rows of S positions."""
        lengths = np.full(batch, source) if mask is None else mask.sum(1).numpy()
        places = np.argsort(-lengths, kind="stable")
        steps = np.arange(lengths.max())[:, None]
        alive = steps < lengths[places]
        counts = alive.sum(1)
        index = (places * source + steps)[alive]
        offsets = [0, *np.cumsum(counts).tolist()]
        return cls(batch, source, torch.from_numpy(places), counts.tolist(), offsets, torch.from_numpy(index))

    @property
    def is_full(self) -> bool:
        """Whether there is no padding."""
        return len(self.index) == self.batch * self.source

    def pack(self, x: Tensor) -> Tensor:
        """The real positions (N, F) of (B, S, F)."""
        return x.flatten(0, 1).index_select(0, self.index)

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, F) in its places in (B, S, F), zeros elsewhere."""
        return (
            self.room(packed, packed.shape[1])
            .flatten(0, 1)
            .index_copy_(0, self.index, packed)
            .unflatten(0, (self.batch, self.source))
        )

    def room(self, like: Tensor, width: int) -> Tensor:
        """(B, S, F) to be written at all real positions, zeros elsewhere."""
        return (like.new_empty if self.is_full else like.new_zeros)(self.batch, self.source, width)
