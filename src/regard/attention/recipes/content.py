"""Attention by content: additive, multiplicative, over separate keys, pooled, and gated over the cells of an image."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments import SoftmaxAlignment, StochasticAlignment
from regard.attention.alignments.normalisers import AlignmentName, alignment_named
from regard.attention.contract import AbstractScore, AbstractWindow
from regard.attention.divided import Divided
from regard.attention.mechanism import Mechanism
from regard.attention.reads import GatedSum, WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import AdditiveScore, BilinearScore, ConcatScore, DotScore, PoolingScore
from regard.attention.sizes import head_size
from regard.attention.windows import Intersection, PredictiveWindow, SlidingWindow
from regard.errors import UnsupportedError


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
    like: str | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention: e_j = vᵀ tanh(W q + U h_j), α = softmax(e), c = Σ α_j h_j.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer.
        num_heads: several v, each over its own slice of the hidden layer; the contexts are concatenated.
        normalised: weight normalisation of v, with a bias.
        bias: whether there is a bias inside the tanh without `normalised`, too, as in OpenNMT.
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        like: another program (`regard.interop.variants`), whose options are then the defaults.
        window: which positions may be attended to; all if None.

    In the paper the query is the decoder state before the step (`order: attend_then_recur` of a decoder); with
    tf.contrib.seq2seq's BahdanauAttention it is the state after it.

    Inputs longer than in training are rarely read at twice their length; `location_sensitive` reads them
    (`docs/lengths.md`).

    Source: Bahdanau, Cho & Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate
    (arXiv 1409.0473).
    """
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, num_heads=num_heads, normalised=normalised, bias=bias),
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )


def vinyals(
    *,
    query_size: int,
    memory_size: int,
    size: int | None = None,
    num_heads: int = 1,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention by heads of full width: e_j = vᵀ tanh(W₁ h_j + W₂ d + b), contexts concatenated.

    The query d is the whole state of the decoder (`query: state` of a decoder; h and c of every layer).

    Args:
        query_size, memory_size: Q and M.
        size: width of each head's hidden layer; M if None.
        num_heads: each head has its own W₁, W₂ and v.
        window: which positions may be attended to; all if None.

    Inputs longer than in training are rarely read at twice their length (`docs/lengths.md`).

    Source: Vinyals et al. 2015, Grammar as a Foreign Language (arXiv 1412.7449), section 2; with several heads,
    attention_decoder of TensorFlow's legacy_seq2seq.
    """
    return Mechanism(
        AdditiveScore(
            query_size, memory_size, (memory_size if size is None else size) * num_heads, num_heads=num_heads, bias=True
        ),
        SoftmaxAlignment(),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
        sources=("vinyals2015",),
    )


def luong(
    *,
    query_size: int,
    memory_size: int,
    score: Literal["dot", "general", "concat"] = "general",
    size: int | None = None,
    learned_scale: bool = False,
    num_heads: int = 1,
    alignment: AlignmentName = "softmax",
    sharpening: float = 1.0,
    local: Literal["monotonic", "predictive"] | None = None,
    reach: int | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Multiplicative attention: e_j = qᵀh_j (dot), qᵀ W h_j (general) or vᵀ tanh(W [q; h_j]) (concat).

    Args:
        query_size, memory_size: Q and M; equal for `dot`.
        score: dot, general or concat.
        size: width of the hidden layer of `concat`; Q if None.
        learned_scale: whether dot and general are multiplied by a learned number, initially 1.
        num_heads: each head compares its own slice; the contexts are concatenated.
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        local: attends only to p - D … p + D, with p the step number (`monotonic`), or predicted from the query with
            weights that fall like a Gaussian (`predictive`, see `PredictiveWindow`). All positions if None.
        reach: D, 10 if None; only with `local`.
        window: a further window; with `local` both apply.

    Inputs longer than in training are rarely read at twice their length (`docs/lengths.md`); with
    `local: monotonic` often, if outputs are as long as inputs.

    Source: Luong, Pham & Manning 2015, Effective Approaches to Attention-based Neural Machine Translation
    (arXiv 1508.04025), section 3.1; local: section 3.2.
    """
    scale = None if learned_scale else 1.0
    scoring: AbstractScore
    if score == "concat":
        if learned_scale:
            raise UnsupportedError("learned_scale multiplies a dot product: use score='dot' or 'general' with it.")
        scoring = ConcatScore(query_size, memory_size, query_size if size is None else size, num_heads=num_heads)
    elif size is not None:
        raise UnsupportedError(f"size={size} is the width of concat's hidden layer; score={score!r} has none.")
    elif score == "dot":
        scoring = DotScore(query_size, memory_size, num_heads=num_heads, scale=scale)
    elif score == "general":
        scoring = BilinearScore(query_size, memory_size, num_heads=num_heads, scale=scale)
    else:
        raise UnsupportedError(f"score={score!r} must be 'dot', 'general' or 'concat'.")
    distance = 10 if reach is None else reach
    local_window: AbstractWindow | None = None
    if local == "monotonic":
        local_window = SlidingWindow(back=distance, front=distance)
    elif local == "predictive":
        local_window = PredictiveWindow(query_size, query_size, reach=distance, num_heads=num_heads)
    elif local is not None:
        raise UnsupportedError(f"local={local!r} must be 'monotonic', 'predictive' or None.")
    elif reach is not None:
        raise UnsupportedError(f"reach={reach} is the reach of a local window: give local='monotonic' or 'predictive'.")
    if local_window is not None:
        window = local_window if window is None else Intersection([local_window, window])
    return Mechanism(
        scoring,
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )


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

    Call `prepare(values, keys=keys)`.

    Args:
        query_size, memory_size: Q, and M of the values.
        key_size: of the keys; M if None.
        size: width of the hidden layer, all heads together.
        num_heads: several v, each over its own slice of the hidden layer; the contexts are concatenated.
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        window: which positions may be attended to; all if None.

    Inputs longer than in training are rarely read at twice their length (`docs/lengths.md`).

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

    Step t attends to h_{t-1} … h_{t-reach}, without h_t; the context of the first step is zero. In training call
    `attention(h, attention.prepare(h))` for a whole sequence; in generation `extend` the memory after every step. The
    model computes the prediction tanh(W_r c_t + W_x p_t).

    Args:
        size: of h, which is divided equally.
        num_parts: 3 for [k; v; p], 2 for [k; v] (v serves as p too), 1 for plain attention (h serves as all three).
        reach: the number of earlier steps that are attended to.
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
    like: str | None = None,
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
        mix: with `hard`, the probability that a row in training has α = softmax(e) instead of a draw; 0.5 in
            arctic-captions.
        gate: "scalar" as in the paper and in arctic-captions' `selector`, "vector" as in sgrvinod's tutorial, or None.
        like: another program (`regard.interop.variants`); None is also arctic-captions, whose bias of v has no effect.
        window: which positions may be attended to; all if None.

    Inputs longer than in training are rarely read at twice their length (`docs/lengths.md`).

    Source: Xu et al. 2015, Show, Attend and Tell: Neural Image Caption Generation with Visual Attention
    (arXiv 1502.03044), sections 3.1.2 and 4.
    """
    if mix and not hard:
        raise UnsupportedError(f"mix={mix} is an option of hard attention: use it with hard=True.")
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=True),
        StochasticAlignment(mix=mix) if hard else SoftmaxAlignment(),
        WeightedSum(memory_size, num_heads=num_heads)
        if gate is None
        else GatedSum(query_size, memory_size, gate=gate, num_heads=num_heads),
        window,
    )
