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
from regard.models.fused.cells import CELLS
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
        first, masks, weights = _sorted(plan, num_masks, flat)
        x = embedded.transpose(0, 1).contiguous()
        steps, batch = x.shape[:2]
        width = x.shape[2]
        layers, readout = weights.layers, weights.readout
        of_input = functional.linear(x, layers[0][0][:, :width], layers[0][2])
        feed_weight = layers[0][0][:, width:].t()
        support = None if mask is None else mask[:, None]
        cell = CELLS[plan.cell]
        state = list(first)
        feed = x.new_zeros(batch, feed_weight.shape[0])
        history: list[Any] = []
        found: tuple[list[Tensor], ...] = ([], [], [], [])
        for t in range(steps):
            before = tuple(state)
            if plan.attends_first:
                query, weight, context = _look(plan, weights, keys, values, support, state[-1][0])
                feed = context
            inner, given, kept = feed, [], []
            for index, (w_ih, w_hh, b_ih, b_hh) in enumerate(layers):
                given.append(inner)
                if index == 0:
                    contribution = torch.addmm(of_input[t], feed, feed_weight)
                else:
                    contribution = functional.linear(inner, w_ih, b_ih)
                state[index], saved = cell.forward(
                    contribution, functional.linear(state[index][0], w_hh, b_hh), state[index]
                )
                kept.append(saved)
                h = state[index][0] * masks[index][t] if index < len(masks) else state[index][0]
                inner = h + inner if plan.residual and index > 0 else h
            if not plan.attends_first:
                query, weight, context = _look(plan, weights, keys, values, support, inner)
            read = [inner, x[t], context] if plan.attends_first else [inner, context]
            output = functional.linear(torch.cat(read, 1), *readout).tanh_()
            history.append((before, given, kept, query))
            feed = output
            for kind, new in zip(found, (output, inner, context, weight), strict=True):
                kind.append(new)
        results = [torch.stack(kind) for kind in found]
        ctx.plan, ctx.num_masks = plan, num_masks
        ctx.save_for_backward(x, keys, values, mask, *results, *flat)
        ctx.history = history if any(ctx.needs_input_grad) else None
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *by_results: Tensor) -> Any:
        x, keys, values, _, outputs, cells, contexts, alignments, *flat = ctx.saved_tensors
        plan = ctx.plan
        first, masks, weights = _sorted(plan, ctx.num_masks, flat)
        steps, width = x.shape[0], x.shape[2]
        layers, size = weights.layers, cells.shape[2]
        cell = CELLS[plan.cell]
        feed_weight = layers[0][0][:, width:]
        by_state = [tuple(torch.zeros_like(part) for part in state) for state in first]
        by_feed = x.new_zeros(x.shape[1], feed_weight.shape[1])
        by_keys, by_v = torch.zeros_like(keys), None if weights.v is None else torch.zeros_like(weights.v)
        gathered = Gathered([], [], [], [[] for _ in layers])
        for t in range(steps - 1, -1, -1):
            before, _, kept, query = ctx.history[t]
            by_output = by_results[0][t] if plan.attends_first else by_results[0][t] + by_feed
            by_z = by_output * (1 - outputs[t] * outputs[t])
            by_read = by_z @ weights.readout[0]
            by_cell = by_read[:, :size] + by_results[1][t]
            by_context = by_read[:, -contexts.shape[2] :] + by_results[2][t]
            if not plan.attends_first:
                by_asked, by_query = _look_back(
                    plan, weights, keys, values, alignments[t], query, by_context, by_results[3][t]
                )
                by_cell = by_cell + by_query
            for index in range(len(layers) - 1, -1, -1):
                by_h = by_cell * masks[index][t] if index < len(masks) else by_cell
                by_last = (by_state[index][0] + by_h, *by_state[index][1:])
                of_input, of_state, by_before, rest = cell.backward(by_last, kept[index], before[index])
                gathered.gates[index].append((of_input, of_state))
                through = of_state @ layers[index][1]
                by_state[index] = (through if by_before is None else through + by_before, *rest)
                if index == 0:
                    by_feed = of_input @ feed_weight
                else:
                    by_inner = of_input @ layers[index][0]
                    by_cell = by_inner + by_cell if plan.residual else by_inner
            if plan.attends_first:
                by_context = by_context + by_feed
                by_asked, by_query = _look_back(
                    plan, weights, keys, values, alignments[t], query, by_context, by_results[3][t]
                )
                by_state[-1] = (by_state[-1][0] + by_query, *by_state[-1][1:])
            by_keys += by_asked[1]
            if by_v is not None and by_asked[2] is not None:
                by_v += by_asked[2]
            for found, new in zip(gathered.looks, (by_z, by_asked[0], by_context), strict=True):
                found.append(new)
        return _finish(ctx, gathered, by_state, by_keys, by_v)


@dataclass(frozen=True)
class Gathered:
    """What the backward loop found, last step first.

    By the readout's sum, projected queries and contexts; for every layer by what input and state add to the gates.
    """

    z: list[Tensor]
    queries: list[Tensor]
    contexts: list[Tensor]
    gates: list[list[tuple[Tensor, Tensor]]]

    @property
    def looks(self) -> tuple[list[Tensor], ...]:
        """All but the gates."""
        return self.z, self.queries, self.contexts


def _finish(
    ctx: Any, gathered: Gathered, by_state: list[tuple[Tensor, ...]], by_keys: Tensor, by_v: Tensor | None
) -> tuple[Any, ...]:
    """Every weight's gradient as one product over all steps, in the order of the arguments of `forward`."""
    x, _, values, _, _, cells, contexts, alignments, *flat = ctx.saved_tensors
    plan, history = ctx.plan, ctx.history
    _, masks, weights = _sorted(plan, ctx.num_masks, flat)
    width = x.shape[2]
    z, by_projected, by_contexts = (torch.stack(found[::-1]) for found in gathered.looks)
    grouped = (
        y.unflatten(2, (values.shape[2], -1)) for y in (alignments, by_contexts.unflatten(2, (plan.num_heads, -1)))
    )
    by_values = torch.einsum("tbgns,tbgnv->bsgv", *grouped)
    by_layers: list[Tensor] = []
    by_x = x.new_zeros(())
    for index, found in enumerate(gathered.gates):
        of_input, of_state = (torch.stack(part[::-1]) for part in zip(*found, strict=True))
        given = torch.stack([step[1][index] for step in history])
        before = torch.stack([step[0][index][0] for step in history])
        if index == 0:
            given = torch.cat([x, given], 2)
            by_x = of_input @ weights.layers[0][0][:, :width]
        by_layers += [_outer(of_input, given), _outer(of_state, before), of_input.sum((0, 1)), of_state.sum((0, 1))]
    read = [cells, x, contexts] if plan.attends_first else [cells, contexts]
    if plan.attends_first:
        by_x = by_x + z @ weights.readout[0][:, cells.shape[2] : cells.shape[2] + width]
    by_query: list[Tensor | None] = [None, None]
    if weights.query[0] is not None:
        asked = torch.stack([step[0][-1][0] for step in history]) if plan.attends_first else cells
        flat_queries = by_projected.flatten(2)
        by_query = [_outer(flat_queries, asked), None if weights.query[1] is None else flat_queries.sum((0, 1))]
    by_first = [part for state in by_state for part in state]
    by_readout = [_outer(z, torch.cat(read, 2)), z.sum((0, 1))]
    by_flat = [*by_first, *(None for _ in masks), *by_layers, *by_query, by_v, *by_readout]
    return None, None, by_x.transpose(0, 1), by_keys, by_values, None, *by_flat


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
