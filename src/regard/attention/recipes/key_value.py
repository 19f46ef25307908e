"""Keys that are not the values."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments import SoftmaxAlignment
from regard.attention.alignments.named import AlignmentName, alignment_named
from regard.attention.contract import AbstractWindow
from regard.attention.divided import Divided
from regard.attention.heads import head_size
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore
from regard.attention.windows import SlidingWindow


def key_value(
    *,
    query_size: int,
    memory_size: int,
    key_size: int | None = None,
    size: int = 256,
    num_heads: int = 1,
    alignment: AlignmentName = "softmax",
    sharpening: float = 1.0,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention over keys that reads values: e_j = vᵀ tanh(W q + U k_j), c = Σ α_j v_j.

    `prepare(values, keys=keys)` takes both.

    Args:
        query_size, memory_size: Q, and M of the values.
        key_size: of the keys; M if None.
        size: width of the hidden layer, all heads together.
        num_heads: several v, each over its own slice of the hidden layer; the contexts are concatenated.
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        window: which positions may be attended to; all if None.

    Source: Daniluk et al. 2017, Frustratingly Short Attention Spans in Neural Language Modeling (arXiv 1702.04521),
    section 2.2.
    """
    return Mechanism(
        AdditiveScore(query_size, memory_size if key_size is None else key_size, size, num_heads=num_heads),
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
        sources=("daniluk2017",),
    )


def key_value_predict(*, size: int, num_parts: Literal[1, 2, 3] = 3, reach: int = 10, num_heads: int = 1) -> Divided:
    """A language model attends to its last steps: h = [k; v; p], α = softmax(wᵀ tanh(W k_i + U k_j)), c = Σ α_j v_j.

    Step t attends to h_{t-1} … h_{t-reach}, without h_t; the first step has nothing to attend to and reads zeros. In
    training call `attention(h, attention.prepare(h))` for a whole sequence; in generation `extend` the memory after
    every step. The prediction tanh(W_r c_t + W_x p_t) is left to the model.

    Args:
        size: of h, which is divided equally.
        num_parts: 3 for [k; v; p], 2 for [k; v] (v serves as p too), 1 for plain attention (h serves as all three).
        reach: how many earlier steps are attended to.
        num_heads: several w, each over its own slice of the hidden layer.

    Source: Daniluk et al. 2017, Frustratingly Short Attention Spans in Neural Language Modeling (arXiv 1702.04521),
    sections 2.1 to 2.3 (their M_t is our hidden layer, their L our reach).
    """
    part = head_size(size, num_parts)
    mechanism = Mechanism(
        AdditiveScore(part, part, part, num_heads=num_heads),
        SoftmaxAlignment(),
        WeightedSum(part, num_heads=num_heads),
        SlidingWindow(back=reach, front=-1),
    )
    return Divided(mechanism, (part,) * num_parts)
