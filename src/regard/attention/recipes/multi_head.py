"""Multi-head scaled dot-product attention."""

from __future__ import annotations

from regard.attention.alignments import SoftmaxAlignment
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import ProjectedSum
from regard.attention.scores import ScaledDotScore


def multi_head(
    *,
    query_size: int,
    memory_size: int,
    size: int = 256,
    num_heads: int = 4,
    bias: bool = False,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Multi-head attention: softmax((W_q q)ᵀ(W_k h) / √d) reads W_v h in every head, and W_o joins the reads.

    Self-attention is this mechanism with a sequence as queries and as memory; `CausalWindow` hides the future.

    Source: Vaswani et al. 2017, Attention Is All You Need (arXiv 1706.03762), section 3.2.
    """
    return Mechanism(
        ScaledDotScore(query_size, memory_size, size, num_heads=num_heads, bias=bias),
        SoftmaxAlignment(),
        ProjectedSum(memory_size, size, num_heads=num_heads, bias=bias),
        window,
    )
