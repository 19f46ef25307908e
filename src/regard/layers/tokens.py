"""Embeddings of tokens, and output layers over a vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.dropout import Dropout, Where, drop
from regard.layers.linear import Linear
from regard.layers.module_weights import module_reason
from regard.ops import linear_cross_entropy, log_softmax
from regard.ops.linear_cross_entropy import cross_entropy
from regard.shapes import Bool, Float, Int


class TokenEmbedding(nn.Module):
    """Vectors for token ids; the padding token's vector stays zero.

    Ids from `num_embeddings` on are embedded as `unknown`: these are the extended ids of a pointer, for source tokens
    outside the vocabulary.

    Args:
        num_embeddings: N, the vocabulary.
        size: D.
        padding: the padding token's id, or None.
        unknown: the id that stands for extended ids.
        dropout: probability that an element is dropped in training.
    """

    def __init__(
        self, num_embeddings: int, size: int, *, padding: int | None = 0, unknown: int = 3, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(num_embeddings, size, padding_idx=padding)
        nn.init.normal_(self.table.weight, std=size**-0.5)
        if padding is not None:
            with torch.no_grad():
                self.table.weight[padding].zero_()
        self.unknown = unknown
        self.dropout = Dropout(dropout)

    @property
    def size(self) -> int:
        """D, the width of a vector."""
        return self.table.embedding_dim

    @torch.no_grad()
    def begin_with(self, vectors: Float[Tensor, "N D"]) -> None:
        """Takes over vectors, except for those that are 0."""
        is_given = vectors.any(1, keepdim=True)
        self.table.weight.copy_(torch.where(is_given, vectors, self.table.weight))

    def forward(self, ids: Int[Tensor, "*rows"], where: Where | None = None) -> Float[Tensor, "*rows D"]:
        """Vectors of ids.

        Args:
            where: the rows and positions of the ids, for dropout by item; None for a sequence or a step.
        """
        ids = torch.where(ids < self.table.num_embeddings, ids, self.unknown)
        return drop(self.dropout, self.table(ids), where=where)


FEW = 8
"""The most tokens that are masked one by one."""
MIN_LOGITS = 1 << 14
"""The least number of logits for which log-probabilities are computed by our kernel, in place."""


class TokenHead(nn.Module):
    """log softmax(W x + b) over the vocabulary.

    Args:
        size: D, the width of the features.
        num_tokens: N.
        tied: an embedding whose matrix is W (Press & Wolf 2017); if its width is not D, a linear map without bias comes
            before it.
        never: ids that are never predicted, such as padding and the beginning of a sentence: log-probability -inf.
        never_counts: whether these count in the softmax, so that the probabilities of all others sum to less than 1, as
            in programs that exclude them only in searches.
    """

    never: Tensor

    def __init__(
        self,
        size: int,
        num_tokens: int,
        *,
        tied: TokenEmbedding | None = None,
        never: Sequence[int] = (),
        never_counts: bool = False,
    ) -> None:
        super().__init__()
        self.register_buffer("never", torch.zeros(num_tokens, dtype=torch.bool), persistent=False)
        self.forbidden = tuple(never)
        self.never_counts = never_counts
        self.predicts_all = not never
        self._mark_forbidden()
        self.adapter: nn.Module = nn.Identity()
        width = size
        if tied is not None and tied.size != size:
            width = tied.size
            self.adapter = Linear(size, width, bias=False)
        self.projection = Linear(width, num_tokens)
        if tied is not None:
            self.projection.weight = tied.table.weight
        self.register_load_state_dict_post_hook(_follow_weights)  # type: ignore[no-untyped-call]

    def forward(self, features: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows N"]:
        """Log-probabilities of the next token, in float32 at least."""
        logits = self.projection(self.adapter(features))
        logits = logits.float() if logits.element_size() < 4 else logits
        if not torch.is_grad_enabled() and not torch.compiler.is_compiling() and logits.numel() >= MIN_LOGITS:
            # the kernel overwrites a copy, as hooks may hold the logits
            logits = logits.clone() if self.predicts_all or self.never_counts else self._without_forbidden(logits)
            result = log_softmax(logits)
            return self._without_forbidden(result) if self.never_counts else result
        if self.predicts_all:
            return logits.log_softmax(-1)
        if self.never_counts:
            return logits.log_softmax(-1).masked_fill(self.never, float("-inf"))
        return logits.masked_fill(self.never, float("-inf")).log_softmax(-1)

    def _without_forbidden(self, x: Float[Tensor, "*rows N"]) -> Float[Tensor, "*rows N"]:
        """A copy with -∞ for forbidden tokens."""
        if len(self.forbidden) > FEW:
            return x.masked_fill(self.never, float("-inf"))
        copied = x.clone()
        for token in self.forbidden:
            copied[..., token] = float("-inf")
        return copied

    def cross_entropy(
        self,
        features: Float[Tensor, "*rows D"],
        targets: Int[Tensor, "*rows"],
        mask: Bool[Tensor, "*rows"] | None = None,
        *,
        smoothing: float = 0.0,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The sums of `losses.cross_entropy` of the outputs of `forward`, by `ops.linear_cross_entropy`.

        A changed head or projection, such as one with hooks or an adapter, is called instead.
        """
        modules = (self, "head", TokenHead), (self.projection, "head.projection", nn.Linear)
        if self.never_counts or any(module_reason(*module) is not None for module in modules):
            return cross_entropy(self(features), targets, mask, smoothing=smoothing)
        never = None if self.predicts_all else self.never
        weight, bias = self.projection.weight, self.projection.bias
        return linear_cross_entropy(self.adapter(features), weight, bias, targets, mask, never, smoothing=smoothing)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Also recomputes `never`, which is not saved and which `to_empty` leaves undefined."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._mark_forbidden()
        return self

    def _mark_forbidden(self) -> None:
        if not self.never.is_meta:
            self.never.zero_()
            self.never[list(self.forbidden)] = True


def _follow_weights(head: TokenHead, keys: Any) -> None:
    """Moves `never` from the meta device to that of weights from `load_state_dict(assign=True)`."""
    device = head.projection.weight.device
    if head.never.is_meta and device.type != "meta":
        head._buffers["never"] = torch.empty_like(head.never, device=device)
        head._mark_forbidden()
