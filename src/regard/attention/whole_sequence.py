"""All steps of a sequence in one operation that keeps no weights: its memory grows with T + S, not with T · S."""

from __future__ import annotations

import torch
from torch import Tensor

from regard import ops
from regard.attention.contract import Comparison, Memory, Parts
from regard.layers import module_weights
from regard.ops.choose import choose
from regard.ops.switch import switched_off
from regard.shapes import Bool, Float, merge_rows, num_hypotheses


def unsupported_reason(
    parts: Parts, comparison: Comparison | None, num_positions: int | None = None, *, reports: bool = False
) -> str | None:
    """Why a mechanism with these parts cannot attend to all steps in one operation, or None.

    The operation does not call the parts: it relies on their declarations.

    Args:
        comparison: that of the score.
        num_positions: of the memory, as a window may be causal only over a short one; any number if None.
        reports: whether the weights are reported to recorders (`layers.recorders`).
    """
    extents = ("all", "past") if comparison is not None and comparison.kind == "dot" else ("all",)
    extent = parts.window.extent if num_positions is None else parts.window.extent_of(num_positions)
    declared = {
        "score": comparison is not None,
        "window": extent in extents,
        "alignment": parts.alignment.softmax_factor is not None,
        "read": parts.read.is_sum,
    }
    for name, part in parts._asdict().items():
        if not declared[name]:
            return f"this path does not support {type(part).__name__}"
        if (reason := module_weights.module_reason(part, f"attention.{name}", reports=reports)) is not None:
            return reason
    assert comparison is not None
    for name, module in comparison.called:
        if (reason := module_weights.module_reason(module, f"attention.score.{name}")) is not None:
            return reason
    return None if torch.compiler.is_compiling() else switched_off()


def unsupported_now(
    parts: Parts, memory: Memory, num_rows: int, *, from_start: bool, reports: bool = False
) -> str | None:
    """Why these parts do not attend to a memory in one operation, or None.

    Args:
        num_rows: R.
        from_start: whether the first of the steps is step 0.
        reports: as in `unsupported_reason`.
    """
    comparison = parts.score.comparison()
    if (reason := unsupported_reason(parts, comparison, memory.num_positions, reports=reports)) is not None:
        return reason
    assert comparison is not None
    if comparison.rotate is not None and not from_start:
        return "queries are rotated by their steps, which do not begin at 0"
    if comparison.kind == "additive":
        assert comparison.v is not None
        return ops.IMPLEMENTATIONS["additive_attention"][0].unsupported_reason(
            memory.score, memory.score, comparison.v, memory.read
        )
    if parts.window.extent_of(memory.num_positions) == "past":
        if not from_start:
            return "steps of a causal window do not begin at 0"
        if num_rows != memory.num_sentences:
            return "steps of a causal window belong to several hypotheses"
    inputs, table = (memory.score, memory.score, memory.read), ops.IMPLEMENTATIONS["dot_attention"]
    # the last entry, the reference, computes the weights; the one before it supports the most inputs of all others
    return None if choose(table, *inputs) is not table[-1] else table[-2].unsupported_reason(*inputs)


def step(
    parts: Parts, comparison: Comparison, query: Float[Tensor, "R Q"], memory: Memory
) -> tuple[Float[Tensor, "R V"], Float[Tensor, "R H S"]]:
    """The context and the weights of one step, for eligible parts without rotations and with all positions."""
    beta = parts.alignment.softmax_factor
    assert beta is not None
    projected = comparison.project(query, parts.score.num_heads)
    sums, weights = ops.attend(projected, memory.score, memory.read, memory.mask, comparison.v, sharpening=beta)
    return parts.read.finish(sums, weights, query), weights


def attend(parts: Parts, queries: Float[Tensor, "R T Q"], memory: Memory) -> Float[Tensor, "R T V"]:
    """The contexts of all steps, for eligible parts."""
    score, beta = parts.score, parts.alignment.softmax_factor
    comparison = score.comparison()
    assert comparison is not None
    assert beta is not None
    rows, steps = queries.shape[:2]
    sentences = memory.num_sentences
    grouped = queries.reshape(sentences, num_hypotheses(rows, sentences) * steps, -1)
    support: Bool[Tensor, "#B #T S"] | None = None if memory.mask is None else memory.mask[:, None]
    query = comparison.project(grouped, score.num_heads)
    if comparison.kind == "additive":
        assert comparison.v is not None
        sums = ops.additive_attention(query, memory.score, comparison.v, memory.read, memory.mask, sharpening=beta)
    else:
        if comparison.rotate is not None:
            at = torch.arange(steps, device=query.device)
            query = comparison.rotate(query, at if query.shape[1] == steps else at.repeat(query.shape[1] // steps))
        causal = parts.window.extent_of(memory.num_positions) == "past"
        if causal and support is not None:
            support = support & support.new_ones(steps, support.shape[2]).tril()
            causal = False
        sums = ops.dot_attention(query, memory.score, memory.read, support, scale=beta, causal=causal)
    sums = merge_rows(sums.flatten(2))
    # 1 for queries that may attend to any position, in place of their weights
    if support is None:
        weights = torch.ones_like(sums[:, :1])
    else:
        weights = support.any(2).expand(-1, grouped.shape[1]).reshape(-1, 1).to(sums.dtype)
    return parts.read.finish(sums, weights, merge_rows(queries)).view(rows, steps, -1)
