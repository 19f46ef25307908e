"""The steps of a plan in torch's own operations: what the fused pass computes, differentiable as often as asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard import ops
from regard.attention.heads import dot_energies, split, weighted_sum
from regard.layers.cells import elementary
from regard.models.fused.plan import Plan


def energies(kind: str, query: Tensor, keys: Tensor, v: Tensor | None) -> Tensor:
    """Additive or dot energies (B, H, S) of a query (B, H, D), keys (B, S, G, D) and v (H, D)."""
    if kind == "additive":
        hidden = torch.tanh(query[:, None] + keys)  # (B, S, H, D)
        return torch.einsum("bshd,hd->bhs", hidden, v)
    return dot_energies(query, keys)


def steps(plan: Plan, num_masks: int, inputs: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs, cells (T, B, D), contexts (T, B, V) and alignments (T, B, H, S).

    Args:
        inputs: inputs (B, T, E), keys, values, mask, first states, masks of dropout and weights, one after the other.
    """
    embedded, keys, values, mask, *flat = inputs
    state, masks, weights = plan.divide(flat, num_masks)
    support = None if mask is None else mask[:, None]

    def attend(s: Tensor) -> tuple[Tensor, Tensor]:
        """The context (B, V) and the alignment (B, H, S)."""
        weight, bias = weights.query
        projected = s if weight is None else linear(s, weight, bias)
        query = split(projected, plan.num_heads)
        alignment = ops.masked_softmax(energies(plan.energies, query, keys, weights.v) * plan.sharpening, support)
        return weighted_sum(alignment, values), alignment

    def recur(x: Tensor, t: int) -> Tensor:
        """The output of the last layer; the state becomes the new one."""
        for index, layer in enumerate(weights.layers):
            state[index] = elementary.step(plan.cell, x, state[index], layer)
            h = state[index][0]
            h = h * masks[index][t] if index < len(masks) else h
            x = h + x if plan.residual and index > 0 else h
        return x

    feed = torch.zeros_like(state[-1][0])
    results = []
    for t, x in enumerate(embedded.unbind(1)):
        if plan.attends_first:
            context, alignment = attend(state[-1][0])
            cell = recur(torch.cat([x, context], 1), t)
            read = [cell, x, context]
        else:
            cell = recur(torch.cat([x, feed], 1), t)
            context, alignment = attend(cell)
            read = [cell, context]
        feed = torch.tanh(linear(torch.cat(read, 1), *weights.readout))
        results.append((feed, cell, context, alignment))
    outputs, cells, contexts, alignments = (torch.stack(parts) for parts in zip(*results, strict=True))
    return outputs, cells, contexts, alignments
