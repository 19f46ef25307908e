"""Multiplicative attention."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments.named import AlignmentName, alignment_named
from regard.attention.contract import AbstractScore, AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import BilinearScore, ConcatScore, DotScore
from regard.attention.windows import Intersection, PredictiveWindow, SlidingWindow
from regard.errors import UnsupportedError


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
        size: width of concat's hidden layer; Q if None. The others have none.
        learned_scale: whether dot and general are multiplied by a learned number, initially 1.
        num_heads: each head compares its own slice; the contexts are concatenated.
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        local: attends only to p - D … p + D, with p the step number (`monotonic`), or p predicted from the query and
            weights that fade like a Gaussian (`predictive`, see `PredictiveWindow`). All positions if None.
        reach: D, 10 if None; only with `local`.
        window: a further window; with `local` both apply.

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
    if local is not None:
        local_window = _local_window(local, query_size, 10 if reach is None else reach, num_heads)
        window = local_window if window is None else Intersection([local_window, window])
    elif reach is not None:
        raise UnsupportedError(f"reach={reach} is the reach of a local window: give local='monotonic' or 'predictive'.")
    return Mechanism(
        scoring,
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )


def _local_window(local: str, query_size: int, reach: int, num_heads: int) -> AbstractWindow:
    if local == "monotonic":
        return SlidingWindow(back=reach, front=reach)
    if local == "predictive":
        return PredictiveWindow(query_size, query_size, reach=reach, num_heads=num_heads)
    raise UnsupportedError(f"local={local!r} must be 'monotonic', 'predictive' or None.")
