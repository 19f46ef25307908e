"""Pooling of a sequence to one vector, with the weights of its positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor, nn

from regard.attention import self_pooling
from regard.attention.interface import prepare_memory
from regard.errors import UnsupportedError
from regard.models.bridge import FixedContext
from regard.models.contract import Encoded
from regard.shapes import Float, keep_mask

PoolingKind = Literal["last", "mean", "maximum", "attention"]


@dataclass(frozen=True, slots=True)
class Pooled:
    """The pooled vector of a sequence.

    Args:
        context: (B, V); zero for a sequence without positions.
        alignment: (B, H, S), exactly 0 at padding; None for kinds without weights.
    """

    context: Tensor
    alignment: Tensor | None = None


class Pooling(nn.Module):
    """c = q(h_1 … h_S), with the weights of the positions for the kinds mean and attention.

    last: the top layer's last state (its first in the backward direction); mean: weights 1/S at the S real positions;
    maximum: of each feature; attention: c = Σ_j α_j h_j with α = softmax(tanh(W h_j + b)ᵀ u)
    (`attention.self_pooling`), the concatenation over heads.

    Args:
        size: M, the width of h.
        attention_size: width of the compared vectors of kind attention, all heads together.
        num_heads: H, for kind attention only.

    Raises:
        UnsupportedError: for an unknown kind, or heads of a kind that has none.

    Source: attention: Yang et al. 2016 (aclanthology N16-1174), equations 5 to 7; several heads: Lin et al. 2017, A
    structured self-attentive sentence embedding (arXiv 1703.03130), whose heads share tanh(W h) and here slice it.
    """

    def __init__(self, kind: PoolingKind, size: int, *, attention_size: int = 100, num_heads: int = 1) -> None:
        super().__init__()
        if kind not in get_args(PoolingKind):
            raise UnsupportedError(f"pooling must be one of {', '.join(get_args(PoolingKind))}; got {kind!r}.")
        if kind != "attention" and num_heads != 1:
            raise UnsupportedError(f"pooling {kind!r} has no heads; got num_heads={num_heads}. Use 'attention'.")
        self.kind = kind
        self.context_size = size * num_heads
        self.attention = None
        self.fixed = None
        if kind == "attention":
            self.attention = self_pooling(memory_size=size, size=attention_size, num_heads=num_heads)
        else:
            self.fixed = FixedContext(kind, size)

    def forward(self, encoded: Encoded) -> Pooled:
        """The context (B, V) and the alignment (B, H, S) of a memory (B, S, M).

        Raises:
            UnsupportedError: for kind last if the encoder has no states.
            ShapeError: for a mask of another shape or type.
        """
        if self.kind == "last" and encoded.final_state is None:
            raise UnsupportedError("pooling 'last' needs the last states of a recurrent stack; this encoder has none.")
        if self.attention is not None:
            attended = self.attention.pool(prepare_memory(self.attention, encoded.memory, encoded.mask, encoded.grid))
            return Pooled(attended.context, attended.alignment)
        assert self.fixed is not None
        weights = self._shares(encoded) if self.kind == "mean" else None
        return Pooled(self.fixed(encoded), weights)

    def _shares(self, encoded: Encoded) -> Float[Tensor, "B 1 S"]:
        """1/S at each of a row's S real positions, 0 elsewhere."""
        memory, mask = encoded.memory, keep_mask(encoded.memory, encoded.mask, name="memory")
        real = memory.new_ones(memory.shape[:2]) if mask is None else mask.to(memory.dtype)
        return (real / real.sum(1, keepdim=True).clamp(min=1))[:, None]
