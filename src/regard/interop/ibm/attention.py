"""The attention of IBM's decoder: dot products, and a layer over context and query."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Memory, luong
from regard.errors import RegardError, ShapeError
from regard.layers.linear import Linear
from regard.shapes import Bool, Float, describe


class Attention(nn.Module):
    """o' = tanh(W [c; o] + b) with c = Σ_j α_j h_j and α = softmax(oᵀ h), over the positions that a mask allows.

    The attention is the recipe `luong` with the score "dot".

    Prefer the argument `mask` of calls, True where a position may be attended to. `set_mask` is the original's method
    and has its polarity: True where a position is hidden. The original kept such a mask for all later batches; here it
    belongs to the first memory that it is used with, and another memory is an error. Copied and saved modules have no
    mask.

    Args:
        dim: D, of the queries and of the memory.

    >>> attention = Attention(4)
    >>> output, weights = attention(torch.randn(2, 3, 4), torch.randn(2, 5, 4), mask=torch.ones(2, 5).bool())
    >>> output.shape, weights.shape
    (torch.Size([2, 3, 4]), torch.Size([2, 3, 5]))
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.mechanism = luong(query_size=dim, memory_size=dim, score="dot")
        self.linear_out = Linear(2 * dim, dim)
        self.mask: Tensor | None = None
        self._memory: weakref.ref[Tensor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"mask": None, "_memory": None}

    def set_mask(self, mask: Bool[Tensor, "B ..."] | None) -> None:
        """Hides positions of the next memory, until another mask is set.

        Args:
            mask: (B, S), (B, 1, S) or (B, T, S) bool, True where a position is hidden; None for all positions.

        Raises:
            ShapeError: for a mask that is not bool, or of another number of dimensions.
        """
        if mask is not None and (mask.dtype != torch.bool or mask.dim() not in (2, 3)):
            raise ShapeError(
                "set_mask takes (B, S) or (B, T, S) bool, True where a position is hidden.\n"
                + describe({"mask": ("B T S" if mask.dim() == 3 else "B S", mask)})
                + "\n  For a 0/1 tensor use mask.bool()."
            )
        self.mask, self._memory = mask, None

    def prepare(self, context: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None = None) -> Memory:
        """The memory for `attend`.

        Args:
            context: (B, S, D), the outputs of an encoder.
            mask: (B, S) bool, True where a position may be attended to; if None, that of `set_mask`.

        Raises:
            ShapeError: for sizes that do not fit.
            RegardError: for a mask of `set_mask` that was used with another memory.
        """
        if context.dim() != 3 or context.shape[-1] != self.dim:
            raise ShapeError(
                f"The memory must be (B, S, D={self.dim}).\n{describe({'memory': ('B S D', context)})}\n"
                "  An encoder in both directions gives 2·D features: the decoder's hidden_size is then 2·D."
            )
        if mask is None and self.mask is not None:
            mask = self._set_for(context)
        return self.mechanism.prepare(context, mask=mask)

    def attend(
        self, output: Float[Tensor, "R T D"], memory: Memory
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R T S"]]:
        """New outputs and weights; R is a multiple of the memory's B rows."""
        attended, _ = self.mechanism(output, memory, alignment=True)
        joined = torch.cat([attended.context, output], -1)
        return self.linear_out(joined).tanh(), attended.alignment.squeeze(1)

    def forward(
        self,
        output: Float[Tensor, "B T D"],
        context: Float[Tensor, "B S D"],
        *,
        mask: Bool[Tensor, "B S"] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T S"]]:
        """The new outputs (B, T, D) and the weights (B, T, S).

        Args:
            output: (B, T, D), the decoder's outputs.
            context, mask: as in `prepare`.
        """
        hidden = self.mask
        if mask is not None or hidden is None or hidden.dim() == 2 or hidden.shape[1] == 1:
            return self.attend(output, self.prepare(context, mask))
        batch, steps = output.shape[:2]  # masks differ by step: each step is a sentence
        if hidden.shape[:2] != (batch, steps):
            raise ShapeError(
                "The mask of set_mask and the outputs disagree on (B, T).\n"
                + describe({"mask": ("B T S", hidden), "output": ("B T D", output)})
            )
        allowed = self._set_for(context).flatten(0, 1)
        memory = self.mechanism.prepare(context.repeat_interleave(steps, 0), mask=allowed)
        new, weights = self.attend(output.flatten(0, 1)[:, None], memory)
        return new.view(batch, steps, -1), weights.view(batch, steps, -1)

    def _set_for(self, context: Tensor) -> Tensor:
        """The mask of `set_mask` with our polarity, (B, S) or (B, T, S), for its own memory only."""
        assert self.mask is not None
        if self._memory is not None and self._memory() is not context:
            raise RegardError(
                "The mask of set_mask was used with another memory. Set the mask of this one (or None), or give mask=… "
                "to the call, True where a position may be attended to."
            )
        if (self.mask.shape[0], self.mask.shape[-1]) != context.shape[:2]:
            shown = {"mask": ("B T S" if self.mask.dim() == 3 else "B S", self.mask), "memory": ("B S D", context)}
            raise ShapeError("The mask of set_mask and the memory disagree on (B, S).\n" + describe(shown))
        self._memory = weakref.ref(context)
        allowed = ~self.mask
        return allowed[:, 0] if allowed.dim() == 3 and allowed.shape[1] == 1 else allowed
