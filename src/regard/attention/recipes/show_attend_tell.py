"""Soft and hard attention over annotations of an image."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments import SoftmaxAlignment, StochasticAlignment
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import GatedSum, WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import AdditiveScore
from regard.errors import UnsupportedError


@imitable
def show_attend_tell(
    *,
    query_size: int,
    memory_size: int,
    size: int = 256,
    num_heads: int = 1,
    hard: bool = False,
    mix: float = 0.0,
    gate: Literal["scalar", "vector"] | None = "scalar",
    like: Literal["sgrvinod"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Soft or hard attention with a gate: e_j = vᵀ tanh(W q + U h_j + b), c = σ(w q + b') Σ α_j h_j.

    Soft: α = softmax(e). Hard: in training α is one position drawn from softmax(e), in evaluation the most probable.
    The score of hard attention learns from `losses.reinforce` on the auxiliary; cross-entropy gives it no gradient.

    Args:
        query_size, memory_size: Q and M; in the paper the query is the decoder state before the step
            (`order: attend_then_recur`).
        size: width of the hidden layer.
        num_heads: several v, each over its own slice of the hidden layer and with its own gate.
        hard: whether one position is drawn.
        mix: with `hard`, the probability that a row in training takes the expectation instead of a draw; 0.5 in
            arctic-captions.
        gate: "scalar" as in the paper and in arctic-captions' `selector`, "vector" as in sgrvinod's tutorial, or None.
        like: another implementation (`regard.attention.peers`). The default is that of arctic-captions, whose
            bias of v has no effect.
        window: which positions may be attended to; all if None.

    Source: Xu et al. 2015, Show, Attend and Tell: Neural Image Caption Generation with Visual Attention
    (arXiv 1502.03044), sections 3.1.2 and 4.
    """
    if mix and not hard:
        raise UnsupportedError(f"mix={mix} is how often hard attention takes the expectation: use it with hard=True.")
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=True),
        StochasticAlignment(mix=mix) if hard else SoftmaxAlignment(),
        WeightedSum(memory_size, num_heads=num_heads)
        if gate is None
        else GatedSum(query_size, memory_size, gate=gate, num_heads=num_heads),
        window,
    )
