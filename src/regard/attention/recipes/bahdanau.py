"""Additive attention."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments.named import AlignmentName, alignment_named
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import AdditiveScore


@imitable
def bahdanau(
    *,
    query_size: int,
    memory_size: int,
    size: int = 256,
    num_heads: int = 1,
    normalised: bool = False,
    bias: bool = False,
    alignment: AlignmentName = "softmax",
    sharpening: float = 1.0,
    like: Literal["mozilla"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention: e_j = vᵀ tanh(W q + U h_j), α = softmax(e), c = Σ α_j h_j.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer.
        num_heads: several v, each over its own slice of the hidden layer; the contexts are concatenated.
        normalised: weight normalisation of v, with a bias.
        bias: whether there is a bias inside the tanh without it, too, as in OpenNMT.
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        like: another implementation (`regard.attention.peers`), whose options are the defaults then.
        window: which positions may be attended to; all if None.

    In the paper the query is the decoder state before the step (`order: attend_then_recur` of a decoder); with
    tf.contrib.seq2seq's BahdanauAttention it is the state after it.

    Source: Bahdanau, Cho & Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate
    (arXiv 1409.0473).
    """
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, num_heads=num_heads, normalised=normalised, bias=bias),
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
