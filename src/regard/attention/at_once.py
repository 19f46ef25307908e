"""All looks of a sequence as one operation, where nobody asks for weights: memory grows with T + S, not with T · S."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from regard import ops
from regard.attention.alignments import SoftmaxAlignment
from regard.attention.contract import Memory
from regard.attention.heads import split
from regard.attention.reads import ProjectedSum, WeightedSum
from regard.attention.scores import AdditiveScore, BilinearScore, DotScore, ScaledDotScore
from regard.attention.windows import CausalWindow, FullWindow
from regard.layers.eligibility import ineligible
from regard.ops.switch import switched_off
from regard.shapes import Bool, Float, merge_rows, num_hypotheses

DOTS: dict[type, Callable[[Any, Tensor], Tensor]] = {
    BilinearScore: lambda score, query: score.dot.project(query),
    DotScore: lambda score, query: score.project(query),
    ScaledDotScore: lambda score, query: score.project(query),
}
"""How scores that compare by dot products project a query."""


def obstacle(parts: Mapping[str, Any]) -> str | None:
    """Why a mechanism of these parts can never look for all steps in one operation, or None."""
    known = {
        "score": (AdditiveScore, *DOTS),
        "window": (FullWindow, CausalWindow) if type(parts["score"]) in DOTS else (FullWindow,),
        "alignment": (SoftmaxAlignment,),
        "read": (WeightedSum, ProjectedSum),
    }
    for name, part in parts.items():
        if type(part) not in known[name]:
            return f"there is no such operation for {type(part).__name__}"
        if (reason := ineligible(part, name)) is not None:
            return reason
    if type(parts["score"]) is BilinearScore and (reason := ineligible(parts["score"].dot, "score.dot", DotScore)):
        return reason
    return None if torch.compiler.is_compiling() else switched_off()


def objection(parts: Mapping[str, Any], memory: Memory, num_rows: int, *, from_start: bool) -> str | None:
    """Why these parts do not look into a memory in one operation, or None.

    Args:
        num_rows: R.
        from_start: whether the first of the steps is step 0.
    """
    if (reason := obstacle(parts)) is not None:
        return reason
    if type(parts["score"]) not in DOTS:
        v = parts["score"].v
        return ops.IMPLEMENTATIONS["additive_attention"][0].refuse(memory.score, memory.score, v, memory.read)
    if type(parts["window"]) is CausalWindow:
        if not from_start:
            return "steps of a causal window do not begin at 0"
        if num_rows != memory.num_sentences:
            return "steps of a causal window belong to several hypotheses"
    return ops.IMPLEMENTATIONS["dot_attention"][0].refuse(memory.score, memory.score, memory.read)


def look(parts: Mapping[str, Any], queries: Float[Tensor, "R T Q"], memory: Memory) -> Float[Tensor, "R T V"]:
    """The contexts, where there is no objection."""
    score, read, beta = parts["score"], parts["read"], float(parts["alignment"].sharpening)
    rows, steps = queries.shape[:2]
    sentences = memory.num_sentences
    asked = queries.reshape(sentences, num_hypotheses(rows, sentences) * steps, -1)
    seen: Bool[Tensor, "#B #T S"] | None = None if memory.mask is None else memory.mask[:, None]
    if type(score) not in DOTS:
        query = split(score.query_projection(asked), score.num_heads)
        found = ops.additive_attention(query, memory.score, score.direction, memory.read, memory.mask, sharpening=beta)
    else:
        causal = type(parts["window"]) is CausalWindow
        if causal and seen is not None:
            seen = seen & seen.new_ones(steps, seen.shape[2]).tril()
            causal = False
        query = DOTS[type(score)](score, asked)
        found = ops.dot_attention(query, memory.score, memory.read, seen, scale=beta, causal=causal)
    reads = merge_rows(found.flatten(2))
    if isinstance(read, ProjectedSum):
        alive = torch.ones_like(reads[:, :1]) if seen is None else _alive(seen, asked.shape[1])
        reads = read.join(reads, alive[..., None].to(reads.dtype))
    return reads.view(rows, steps, -1)


def _alive(seen: Bool[Tensor, "#B #T S"], steps: int) -> Bool[Tensor, "BT 1"]:
    """Which queries see anything."""
    return seen.any(2).expand(-1, steps).reshape(-1, 1)
