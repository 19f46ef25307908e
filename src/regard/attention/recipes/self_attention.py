"""A sequence that attends to itself."""

from __future__ import annotations

from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.recipes.multi_head import Positions, multi_head


def self_attention(
    *,
    size: int,
    num_heads: int = 1,
    positions: Positions | None = None,
    causal: bool = False,
    bias: bool = False,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Scaled dot-product attention of a sequence to itself: softmax((W_q x_i)ᵀ(W_k x_j) / √d) reads W_v x_j.

    Queries and memory are the same sequence; `SelfAttention` takes care of both.

    Args:
        size: of x and of the context.
        num_heads: H; d is size / H.
        positions: as in `multi_head`.
        causal: whether a position attends only to itself and those before it.
        bias: whether the projections have biases.
        window: a further window; both apply.

    Source: Vaswani et al. 2017, Attention Is All You Need (arXiv 1706.03762), section 3.2.3.
    """
    return multi_head(
        query_size=size,
        memory_size=size,
        size=size,
        num_heads=num_heads,
        positions=positions,
        causal=causal,
        bias=bias,
        window=window,
    )
