"""Multi-head scaled dot-product attention, with or without positions, and of a sequence to itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

from regard.attention.alignments.normalisers import AlignmentName, alignment_named
from regard.attention.contract import AbstractRead, AbstractScore, AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import DroppedRead, ProjectedSum, RelativeSum
from regard.attention.scores import (
    NormalisedDotScore,
    RelativeDotScore,
    RotaryDotScore,
    ScaledDotScore,
    TransformerXLScore,
)
from regard.attention.windows import BucketBiasWindow, CausalWindow, Intersection, LinearBiasWindow, SlidingWindow
from regard.errors import UnsupportedError

Positions = Literal["rotary", "linear_bias", "buckets", "relative", "transformer_xl"]
"""Kinds of relative positions."""


def multi_head(
    *,
    query_size: int,
    memory_size: int,
    size: int = 256,
    num_heads: int = 4,
    num_key_value_heads: int | None = None,
    positions: Positions | None = None,
    causal: bool = False,
    bias: bool = False,
    normalised: bool = False,
    dropout: float = 0.0,
    rotary_layout: Literal["interleaved", "half"] = "interleaved",
    rotary_base: float = 10000.0,
    max_distance: int = 16,
    shared_offsets: bool = False,
    alignment: AlignmentName = "softmax",
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Multi-head attention: each head reads W_v h by softmax((W_q q)ᵀ(W_k h) / √d), and W_o joins the heads.

    Self-attention is this mechanism with the same sequence as queries and memory. `positions` compares the index i of a
    query with the index j of a position, in cross-attention too, where it helps if outputs are in about the same places
    as their inputs (letters and phonemes):

    - `rotary`: queries and keys are rotated by their positions (RoFormer, arXiv 2104.09864).
    - `linear_bias`: -m |i - j| is added, with a slope m for each head (ALiBi, arXiv 2108.12409).
    - `buckets`: a learned bias for each range of distances is added (T5, arXiv 1910.10683).
    - `relative`: keys and values have learned vectors for offsets (Shaw et al., arXiv 1803.02155).
    - `transformer_xl`: sinusoids of the offset, compared with the query (arXiv 1901.02860).

    Further settings (the number of buckets, of rotated features, …) are options of the parts: compose a `Mechanism`.

    Args:
        query_size, memory_size: Q and M.
        size: width of all heads together, and of the context.
        num_key_value_heads: the heads of keys and values, a divisor of num_heads; as many if None (arXiv 2305.13245).
        positions: see above; None for no relative positions.
        causal: whether step t may attend only to the positions 0 … t.
        bias: whether the projections have biases.
        normalised: whether queries and keys have length 1, and a learned number scales their products
            (`NormalisedDotScore`); without positions, or with `rotary`, `linear_bias` or `buckets`.
        dropout: on the weights that read the values, in training (`DroppedRead`).
        rotary_layout, rotary_base: of `rotary`, which features form a pair, and the base of the angles
            (`RotaryDotScore`).
        max_distance: of `relative`, the greatest offset with a vector of its own.
        shared_offsets: of `relative`, whether keys and values have the same vectors, as in OpenNMT-py.
        alignment: the alignment, by name (`alignment_named`).
        window: a further window.

    Inputs longer than in training: with `positions` linear_bias or relative a recurrent decoder reads ten times their
    length if each symbol has one output; with others rarely twice their length (`docs/lengths.md`).

    Source: Vaswani et al. 2017, Attention Is All You Need (arXiv 1706.03762), section 3.2.
    """
    if positions not in (None, *get_args(Positions)):
        raise UnsupportedError(f"positions={positions!r} must be one of {', '.join(get_args(Positions))}, or None.")
    options_of_positions = {
        "rotary": {"rotary_layout": rotary_layout != "interleaved", "rotary_base": rotary_base != 10000.0},
        "relative": {"max_distance": max_distance != 16, "shared_offsets": shared_offsets},
    }
    for kind, options in options_of_positions.items():
        for name, is_set in options.items():
            if is_set and positions != kind:
                raise UnsupportedError(f"{name} is an option of positions={kind!r}; got positions={positions!r}.")
    heads: dict[str, Any] = {"num_heads": num_heads, "num_key_value_heads": num_key_value_heads, "bias": bias}
    scores: dict[str | None, Callable[..., AbstractScore]] = {
        "rotary": partial(RotaryDotScore, normalised=normalised, layout=rotary_layout, base=rotary_base),
        "relative": partial(RelativeDotScore, max_distance=max_distance),
        "transformer_xl": TransformerXLScore,
    }
    if normalised and positions in ("relative", "transformer_xl"):
        raise UnsupportedError(
            f"normalised=True has no effect on positions={positions!r}, whose score compares queries with vectors of "
            "offsets, too; leave one of them out."
        )
    content = NormalisedDotScore if normalised else ScaledDotScore
    score_of = partial(scores.get(positions, content), query_size, memory_size, size, **heads)
    read: AbstractRead
    score: Any
    if shared_offsets:
        score = score_of()
        read = RelativeSum(memory_size, size, max_distance=max_distance, offsets=score.offsets, **heads)
    else:  # the order of the random initial weights
        relative = partial(RelativeSum, max_distance=max_distance)
        read = (relative if positions == "relative" else ProjectedSum)(memory_size, size, **heads)
        score = score_of()
    is_past = type(window) is SlidingWindow and window.front is not None and window.front <= 0
    windows: list[AbstractWindow] = [CausalWindow()] if causal and not is_past else []
    if positions == "linear_bias":
        windows.append(LinearBiasWindow(num_heads))
    elif positions == "buckets":
        windows.append(BucketBiasWindow(num_heads, bidirectional=not causal))
    if window is not None:
        windows.append(window)
    return Mechanism(
        score,
        alignment_named(alignment, num_heads=num_heads),
        DroppedRead(read, dropout=dropout) if dropout else read,
        Intersection(windows) if len(windows) > 1 else next(iter(windows), None),
    )


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

    `SelfAttention` calls it with the same sequence as queries and memory.

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
