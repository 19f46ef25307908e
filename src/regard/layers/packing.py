"""Packed sequences: the real positions of step 0, then those of step 1, and so on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from regard.shapes import Bool, Float, Int


@dataclass(frozen=True)
class Packing:
    """The N real positions of a batch (B, S), in the order of steps.

    Rows are sorted by length, the longest first. Step t has the packed rows offsets[t] … offsets[t] + counts[t], of the
    batch's rows sorted_indices[: counts[t]].

    Args:
        batch, source: B and S.
        sorted_indices: (B,) rows of the batch, the longest first.
        counts: the number of rows that have each step, for all steps of the longest row.
        offsets: the beginnings of the steps, and N.
        index: (N,) flat positions b · S + t of the batch, in packed order.
    """

    batch: int
    source: int
    sorted_indices: Tensor
    counts: list[int]
    offsets: list[int]
    index: Tensor

    @classmethod
    def of(cls, batch: int, source: int, mask: Bool[Tensor, "B S"] | None = None) -> Packing:
        """The packing of a right-padded mask; without one, of rows of S positions."""
        lengths = np.full(batch, source) if mask is None else mask.sum(1).numpy()
        sorted_indices = np.argsort(-lengths, kind="stable")
        # (steps, B), the longest rows first: those that have a step, flattened by steps, are in packed order
        steps = np.arange(lengths.max())[:, None]
        alive = steps < lengths[sorted_indices]
        counts = alive.sum(1)
        index = (sorted_indices * source + steps)[alive]
        offsets = [0, *np.cumsum(counts).tolist()]
        return cls(batch, source, torch.from_numpy(sorted_indices), counts.tolist(), offsets, torch.from_numpy(index))

    @property
    def is_full(self) -> bool:
        """Whether there is no padding."""
        return len(self.index) == self.batch * self.source

    def pack(self, x: Tensor) -> Tensor:
        """The real positions (N, F) of (B, S, F)."""
        return x.flatten(0, 1).index_select(0, self.index)

    def unpack(self, packed: Tensor) -> Tensor:
        """Packed (N, F) at its positions in (B, S, F), zeros elsewhere."""
        return (
            self.room(packed, packed.shape[1])
            .flatten(0, 1)
            .index_copy_(0, self.index, packed)
            .unflatten(0, (self.batch, self.source))
        )

    def room(self, like: Tensor, width: int) -> Tensor:
        """A tensor (B, S, F) for results, which the caller writes at all real positions; zeros elsewhere."""
        return (like.new_empty if self.is_full else like.new_zeros)(self.batch, self.source, width)


@dataclass(frozen=True)
class RightPadding:
    """The right-padding of a batch (B, S), with packing and lengths that layers share.

    Args:
        batch, source: B and S.
        mask: (B, S), True at real positions; None if all are.
    """

    batch: int
    source: int
    mask: Bool[Tensor, "B S"] | None = None

    @cached_property
    def packing(self) -> Packing:
        """The packing of the real positions; the mask must be on the CPU."""
        return Packing.of(self.batch, self.source, self.mask)

    @cached_property
    def lengths(self) -> Int[Tensor, " B"]:
        """The number of real positions of each row, on the CPU."""
        return torch.full((self.batch,), self.source) if self.mask is None else self.mask.sum(1).cpu()

    def cleared(self, x: Float[Tensor, "B S F"]) -> Float[Tensor, "B S F"]:
        """x, 0 at padding."""
        return x if self.mask is None else x.masked_fill(~self.mask[..., None], 0)
