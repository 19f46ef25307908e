"""Output layers: from a decoder's features to what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.embedding import TokenEmbedding
from regard.ops import linear_cross_entropy
from regard.shapes import Bool, Float, Int


class TokenHead(nn.Module):
    """log softmax(W x + b) over the vocabulary.

    Args:
        size: D, the width of the features.
        num_tokens: N.
        tied: an embedding whose matrix is used as W (Press & Wolf 2017); where its width is not D, a linear map
            without bias brings the features there.
        never: ids that are never said, as padding and the beginning of a sentence: log-probability -inf.
    """

    never: Tensor

    def __init__(
        self, size: int, num_tokens: int, *, tied: TokenEmbedding | None = None, never: Sequence[int] = ()
    ) -> None:
        super().__init__()
        forbidden = torch.zeros(num_tokens, dtype=torch.bool)
        forbidden[list(never)] = True
        self.register_buffer("never", forbidden, persistent=False)
        self.says_all = not never
        self.adapter: nn.Module = nn.Identity()
        width = size
        if tied is not None and tied.size != size:
            width = tied.size
            self.adapter = nn.Linear(size, width, bias=False)
        self.projection = nn.Linear(width, num_tokens)
        if tied is not None:
            self.projection.weight = tied.table.weight

    def forward(self, features: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows N"]:
        """Log-probabilities of the next token, in float32 at least."""
        logits = self.projection(self.adapter(features))
        logits = logits.float() if logits.element_size() < 4 else logits
        return (logits if self.says_all else logits.masked_fill(self.never, float("-inf"))).log_softmax(-1)

    def cross_entropy(
        self,
        features: Float[Tensor, "*rows D"],
        targets: Int[Tensor, "*rows"],
        mask: Bool[Tensor, "*rows"] | None = None,
        *,
        smoothing: float = 0.0,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The sums of `losses.cross_entropy` of what `forward` says, by `ops.linear_cross_entropy`."""
        never = None if self.says_all else self.never
        weight, bias = self.projection.weight, self.projection.bias
        return linear_cross_entropy(self.adapter(features), weight, bias, targets, mask, never, smoothing=smoothing)

    @property
    def is_plain(self) -> bool:
        """Whether its weights alone make what it says: no subclass, no module in the projection's place, no hook."""
        parts: tuple[Any, Any] = (self, self.projection)
        hooks = [(part._forward_pre_hooks, part._forward_hooks, part._backward_hooks) for part in parts]
        return [type(part) for part in parts] == [TokenHead, nn.Linear] and not any(map(any, hooks))
