"""Pooling with a learned context vector."""

from __future__ import annotations

from regard.attention.alignments import SoftmaxAlignment
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import PoolingScore


def self_pooling(*, memory_size: int, size: int = 100, num_heads: int = 1) -> Mechanism:
    """A memory read without a query: u_j = tanh(W h_j + b), α = softmax(u_jᵀ u), c = Σ α_j h_j.

    Args:
        memory_size: M.
        size: width of u_j, all heads together.
        num_heads: several u, each over its own slice; the contexts are concatenated.

    Source: Yang et al. 2016, Hierarchical Attention Networks for Document Classification (aclanthology N16-1174).
    """
    return Mechanism(
        PoolingScore(memory_size, size, num_heads=num_heads),
        SoftmaxAlignment(),
        WeightedSum(memory_size, num_heads=num_heads),
    )
