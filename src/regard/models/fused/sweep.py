"""The whole teacher-forced pass of a recurrent decoder as one node of the graph.

Steps depend on each other through the cell and what is fed back alone. So the input's share of the gates is one product
before the loop, and after the backward loop every weight's gradient is one product over all steps. The loop itself
runs without autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard import ops
from regard.attention.heads import weighted_sum
from regard.models.fused.cells import stack_of
from regard.models.fused.scores import ENERGIES, Gradients


@dataclass(frozen=True)
class Plan:
    """What is fixed: the types of the parts and their numbers.

    Args:
        cell: lstm or gru.
        num_layers: L.
        residual: as in `RecurrentStack`.
        attends_first: the order attend_then_recur; else the attentional output is fed back.
        energies: additive or dot.
        num_heads: H.
        sharpening: factor on the energies.
    """

    cell: str
    num_layers: int
    residual: bool
    attends_first: bool
    energies: str
    num_heads: int
    sharpening: float

    @property
    def num_tensors(self) -> int:
        """Tensors in a layer's state."""
        return 2 if self.cell == "lstm" else 1


@dataclass(frozen=True)
class Weights:
    """The parameters; gradients have the same form.

    Args:
        layers: (w_ih, w_hh, b_ih, b_hh) a layer; the columns of the first w_ih meet the input, then what is fed back.
        query: W and b of the query's projection, or None.
        v: (H, D) of additive energies, or None.
        readout: W and b; columns meet the cell, the input if it attends first, and the context.
    """

    layers: tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...]
    query: tuple[Tensor | None, Tensor | None]
    v: Tensor | None
    readout: tuple[Tensor, Tensor]

    def flat(self) -> list[Tensor | None]:
        """One after the other."""
        return [*(weight for layer in self.layers for weight in layer), *self.query, self.v, *self.readout]

    @classmethod
    def of(cls, flat: Sequence[Any]) -> Weights:
        """From `flat`."""
        layers, rest = flat[:-5], flat[-5:]
        quadruples = tuple(tuple(layers[i : i + 4]) for i in range(0, len(layers), 4))
        return cls(quadruples, (rest[0], rest[1]), rest[2], (rest[3], rest[4]))


def sweep(
    plan: Plan,
    embedded: Tensor,
    memory: tuple[Tensor, Tensor, Tensor | None],
    first: Sequence[tuple[Tensor, ...]],
    masks: Sequence[Tensor],
    weights: Weights,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All steps.

    Args:
        embedded: (B, T, E).
        memory: keys (B, S, G, D), values (B, S, G, V), and the mask (B, S) or None.
        first: the first state of every layer.
        masks: (T, B, D) of the dropout between layers, 1 / keep or 0; empty without dropout.

    Returns:
        outputs (B, T, D), cells (B, T, D), contexts (B, T, V), alignments (B, H, T, S).
    """
    keys, values, mask = memory
    flat = [*(tensor for state in first for tensor in state), *masks, *weights.flat()]
    found = _Sweep.apply(plan, len(masks), embedded, keys, values, mask, *flat)  # type: ignore[no-untyped-call]
    outputs, cells, contexts, alignments = found
    return outputs.transpose(0, 1), cells.transpose(0, 1), contexts.transpose(0, 1), alignments.permute(1, 2, 0, 3)


class _Sweep(torch.autograd.Function):
    """Time comes first inside."""

    @staticmethod
    def forward(
        ctx: Any, plan: Plan, num_masks: int, embedded: Tensor, keys: Tensor, values: Tensor, mask: Any, *flat: Any
    ) -> Any:
        state, masks, weights = _sorted(plan, num_masks, flat)
        x = embedded.transpose(0, 1).contiguous()
        steps, batch, width = x.shape
        layers = stack_of(plan.cell, weights.layers, width, steps, batch)
        known = layers[0].known(x)
        readout, said = _parts_of_readout(plan, weights, x)
        support = None if mask is None else mask[:, None]
        feed = x.new_zeros(batch, weights.layers[0][0].shape[1] - width)
        queries: list[Tensor] = []
        found: tuple[list[Tensor], ...] = ([], [], [], [])
        for t in range(steps):
            if plan.attends_first:
                query, weight, context = _look(plan, weights, keys, values, support, state[-1][0])
                feed = context
            inner = feed
            for index, layer in enumerate(layers):
                state[index] = layer.forward(t, known[t] if index == 0 else None, inner, state[index])
                h = state[index][0] * masks[index][t] if index < num_masks else state[index][0]
                inner = h + inner if plan.residual and index > 0 else h
            if not plan.attends_first:
                query, weight, context = _look(plan, weights, keys, values, support, inner)
            feed = torch.addmm(said[t], torch.cat([inner, context], 1), readout.t()).tanh_()
            queries.append(query)
            for kind, new in zip(found, (feed, inner, context, weight), strict=True):
                kind.append(new)
        results = [torch.stack(kind) for kind in found]
        ctx.plan, ctx.num_masks = plan, num_masks
        ctx.kept = (layers, queries) if any(ctx.needs_input_grad) else None
        ctx.save_for_backward(x, keys, values, *results, *flat)
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *by_results: Tensor) -> Any:
        x, keys, values, outputs, cells, contexts, alignments, *flat = ctx.saved_tensors
        plan, (layers, queries) = ctx.plan, ctx.kept
        first, masks, weights = _sorted(plan, ctx.num_masks, flat)
        readout, _ = _parts_of_readout(plan, weights, x)
        size = cells.shape[2]
        by_state = [tuple(torch.zeros_like(part) for part in state) for state in first]
        by_feed = x.new_zeros(x.shape[1], weights.layers[0][0].shape[1] - x.shape[2])
        by_gates = [layer.room() for layer in layers]
        by_z, by_contexts = torch.empty_like(outputs), torch.empty_like(contexts)
        by_queries = outputs.new_empty(len(outputs), *queries[0].shape)
        by_keys, by_v = torch.zeros_like(keys), None if weights.v is None else torch.zeros_like(weights.v)
        slopes = 1 - outputs * outputs
        for t in range(len(outputs) - 1, -1, -1):
            by_output = by_results[0][t] if plan.attends_first else by_results[0][t] + by_feed
            by_read = torch.mul(by_output, slopes[t], out=by_z[t]) @ readout
            by_cell = by_read[:, :size] + by_results[1][t]
            by_context = torch.add(by_read[:, size:], by_results[2][t], out=by_contexts[t])
            if not plan.attends_first:
                by_asked, by_query = _look_back(
                    plan, weights, keys, values, alignments[t], queries[t], by_context, by_results[3][t]
                )
                by_cell = by_cell + by_query
            for index in range(len(layers) - 1, -1, -1):
                by_h = by_cell * masks[index][t] if index < len(masks) else by_cell
                by_last = (by_state[index][0] + by_h, *by_state[index][1:])
                by_fed, by_state[index] = layers[index].backward(t, by_last, by_gates[index][t])
                by_cell = by_fed + by_cell if plan.residual and index > 0 else by_fed
            by_feed = by_cell
            if plan.attends_first:
                by_context += by_feed
                by_asked, by_query = _look_back(
                    plan, weights, keys, values, alignments[t], queries[t], by_context, by_results[3][t]
                )
                by_state[-1] = (by_state[-1][0] + by_query, *by_state[-1][1:])
            by_queries[t] = by_asked[0]
            by_keys += by_asked[1]
            if by_v is not None and by_asked[2] is not None:
                by_v += by_asked[2]
        # Every weight's gradient is one product over all steps.
        by_layers: list[Tensor] = []
        by_x = x.new_zeros(())
        for index, layer in enumerate(layers):
            of_weights, of_inputs = layer.gradients(by_gates[index], x if index == 0 else None)
            by_layers += of_weights
            by_x = by_x if of_inputs is None else of_inputs
        read = [cells, contexts]
        if plan.attends_first:
            read.insert(1, x)
            by_x = by_x + by_z @ weights.readout[0][:, size : size + x.shape[2]]
        heads = (y.unflatten(2, (values.shape[2], -1)) for y in (alignments, _by_heads(plan, by_contexts)))
        by_values = torch.einsum("tbgns,tbgnv->bsgv", *heads)
        by_asking: list[Tensor | None] = [None, None]
        if weights.query[0] is not None:
            asked = layers[-1].last_states() if plan.attends_first else cells
            of_query = by_queries.flatten(2)
            by_asking = [_outer(of_query, asked), None if weights.query[1] is None else of_query.sum((0, 1))]
        by_first = [part for state in by_state for part in state]
        by_readout = [_outer(by_z, torch.cat(read, 2)), by_z.sum((0, 1))]
        by_flat = [*by_first, *(None for _ in masks), *by_layers, *by_asking, by_v, *by_readout]
        return None, None, by_x.transpose(0, 1), by_keys, by_values, None, *by_flat


def _parts_of_readout(plan: Plan, weights: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of the readout that meet cell and context, and what it knows before the first step (T, 1 or B, D)."""
    weight, bias = weights.readout
    if not plan.attends_first:
        return weight, bias.expand(len(x), 1, -1)
    size = len(weight)
    known = torch.addmm(bias, x.flatten(0, 1), weight[:, size : size + x.shape[2]].t())
    return torch.cat([weight[:, :size], weight[:, size + x.shape[2] :]], 1), known.unflatten(0, x.shape[:2])


def _by_heads(plan: Plan, contexts: Tensor) -> Tensor:
    """(T, B, V) as (T, B, H, V / H)."""
    return contexts.unflatten(2, (plan.num_heads, -1))


def _outer(by_outputs: Tensor, inputs: Tensor) -> Tensor:
    """Σ over steps and sentences of the gradient of outputs times inputs."""
    return by_outputs.flatten(0, 1).t() @ inputs.flatten(0, 1)


def _sorted(
    plan: Plan, num_masks: int, flat: Sequence[Any]
) -> tuple[list[tuple[Tensor, ...]], Sequence[Tensor], Weights]:
    """First states, masks and weights, from one after the other."""
    n, layers = plan.num_tensors, plan.num_layers
    first = [tuple(flat[i : i + n]) for i in range(0, n * layers, n)]
    return first, flat[n * layers : n * layers + num_masks], Weights.of(flat[n * layers + num_masks :])


def _look(
    plan: Plan, weights: Weights, keys: Tensor, values: Tensor, support: Tensor | None, query: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The projected query (B, H, D), the weights (B, H, S) and the context (B, V)."""
    projection, bias = weights.query
    if projection is not None:
        query = functional.linear(query, projection, bias)
    query = query.unflatten(1, (plan.num_heads, -1))
    energies = ENERGIES[plan.energies].forward(query, keys, weights.v)
    weight = ops.masked_softmax(energies * plan.sharpening if plan.sharpening != 1.0 else energies, support)
    return query, weight, weighted_sum(weight, values)


def _look_back(
    plan: Plan,
    weights: Weights,
    keys: Tensor,
    values: Tensor,
    weight: Tensor,
    query: Tensor,
    by_context: Tensor,
    by_weight: Tensor,
) -> tuple[Gradients, Tensor]:
    """By the projected query (B, H, D), the keys and v; and by the query (B, Q)."""
    grouped = by_context.unflatten(1, (values.shape[2], plan.num_heads // values.shape[2], -1))
    by_weight = by_weight + torch.einsum("bgnv,bsgv->bgns", grouped, values).flatten(1, 2)
    by_energies = weight * (by_weight - (weight * by_weight).sum(-1, keepdim=True))
    if plan.sharpening != 1.0:
        by_energies = by_energies * plan.sharpening
    found = ENERGIES[plan.energies].backward(by_energies, query, keys, weights.v)
    by_projected = found[0].flatten(1)
    return found, by_projected if weights.query[0] is None else by_projected @ weights.query[0]
