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
from regard.ops.location.reference import location_energies


def energies(kind: str, query: Tensor, keys: Tensor, v: Tensor | None) -> Tensor:
    """Additive, rectified or dot energies (B, H, S) of a query (B, H, D), keys (B, S, G, D) and v (H, D)."""
    if kind == "additive":
        hidden = torch.tanh(query[:, None] + keys)  # (B, S, H, D)
        return torch.einsum("bshd,hd->bhs", hidden, v)
    if kind == "rectified":
        hidden = torch.relu(query[:, None] + keys)
        return torch.einsum("bshd,hd->bhs", hidden, v)
    return dot_energies(query, keys)


def steps(plan: Plan, num_masks: int, inputs: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs, cells (T, B, D), contexts (T, B, V) and alignments (T, B, H, S).

    Args:
        inputs: inputs (B, T, E), keys, values, mask, weights before the first step and their sum, first states, masks
            of dropout and weights, one after the other.
    """
    embedded, keys, values, mask, recent, total, *flat = inputs
    state, masks, weights = plan.divide(flat, num_masks)
    support = None if mask is None else mask[:, None]
    located = plan.located
    channel: Any = None if recent is None else recent[:, :, -1]
    of_past: Any = (*weights.located, weights.v)
    gate_weights: Any = weights.gate
    readout: Any = weights.readout

    def compare(query: Tensor) -> Tensor:
        """Energies (B, H, S) of a query (B, H, D)."""
        if located is None:
            return energies(plan.energies, query, keys, weights.v)
        parts = [recent] if located.has_recent else []
        past = torch.cat([*parts, channel[:, :, None]], 2) if located.has_sum else parts[0]
        past = past if located.grid is None else past.unflatten(3, located.grid)
        filters, projection, v = of_past
        return location_energies(query[:, None], keys, past[:, None], filters, projection, v)[:, 0]

    def attend(s: Tensor) -> tuple[Tensor, Tensor]:
        """The context (B, V) and the alignment (B, H, S)."""
        weight, bias = weights.query
        projected = s if weight is None else linear(s, weight, bias)
        query = split(projected, plan.num_heads)
        alignment = ops.masked_softmax(compare(query) * plan.sharpening, support)
        if located is not None:
            nonlocal recent, total, channel
            seen = alignment.detach() if located.is_detached else alignment
            recent = torch.cat([recent[:, :, 1:], seen[:, :, None]], 2)
            channel = total = total + seen
        context = weighted_sum(alignment, values)
        if plan.num_gates:
            gate = torch.sigmoid(linear(s, *gate_weights))
            context = (context.unflatten(1, (plan.num_gates, -1)) * gate[..., None]).flatten(1)
        return context, alignment

    def recur(x: Tensor, t: int) -> Tensor:
        """The output of the last layer; the state becomes the new one."""
        for index, layer in enumerate(weights.layers):
            state[index] = elementary.step(plan.cell, x, state[index], layer)
            h = state[index][0]
            h = h * masks[index][t] if index < len(masks) else h
            x = h + x if plan.residual and index > 0 else h
        return x

    # what is fed back beside x: nothing at first
    feed = embedded.new_zeros(len(embedded), weights.layers[0][0].shape[1] - embedded.shape[2])
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
        output = linear(torch.cat(read, 1), *readout) if plan.reads_out else cell[:, :0]
        output = torch.tanh(output) if plan.tanh else output
        feed = output if plan.reads_out else context
        results.append((output, cell, context, alignment))
    outputs, cells, contexts, alignments = (torch.stack(parts) for parts in zip(*results, strict=True))
    return outputs, cells, contexts, alignments
