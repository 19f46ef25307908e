"""Parts of a decoder of frames' step for a single row, by the kernels of `ops.single_row`.

With one row a step takes as long as its weights take from memory. So the columns of the prenet's features, of which
dropout and the rectifier leave a quarter, are read only where these are not zero. And where attention's context is
c = Σ_s α_s v_s of a look, the products W_c v_s are made once for all steps; W_c c is then a sum of the few of them that
have weight. What goes from step to step is α (R, H·S) in the place of c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.attention.contract import Tree
from regard.layers.cell_stack import CellStack
from regard.layers.cells.cell import parameters
from regard.layers.recurrent import CellState
from regard.models.fused import attending
from regard.ops.choose import loaded
from regard.ops.linear import linear
from regard.ops.single_row.reference import Affine

KERNELS = "regard.ops.single_row.numba"
Mix = Callable[[Tensor], Tensor]
"""From W_c (N, H·V) to W_c v for each head and position, (H·S, N)."""


def takes_cells(stack: CellStack | None) -> bool:
    """Whether a stack's steps have such kernels."""
    return stack is None or (stack.cell == "lstm" and stack.projection is None and not stack.residual)


def mix_of(values: Tensor, num_heads: int) -> Mix:
    """Of the values (1, S, G, V) of a sentence; heads side by side share them."""
    of_heads = values[0].detach().repeat_interleave(num_heads // values.shape[2], 1).transpose(0, 1)  # (H, S, V)

    def mix(weight: Tensor) -> Tensor:
        parts = weight.unflatten(1, (num_heads, -1)).unbind(1)  # each (N, V)
        return torch.cat([linear(value, part.contiguous()) for value, part in zip(of_heads, parts, strict=True)])

    return mix


def affine(weight: Tensor, bias: Tensor, sparse: int = 0, context: int = 0, mix: Mix | None = None) -> Any:
    """The parts of a product W [x; left; context] + b.

    Args:
        weight, bias: W (N, ·) and b (N,).
        sparse: columns of x.
        context: columns of the context, the last ones.
        mix: where weights stand for the context.
    """
    weight = weight.detach()
    of_sparse, rest, of_context = weight.tensor_split([sparse, weight.shape[1] - context], 1)
    nothing = weight[:0, :0].new_empty(0, len(weight))
    mixed = nothing
    if mix is None or not context:
        rest = torch.cat([rest, of_context], 1) if context else rest
    else:
        mixed = mix(of_context)
    return Affine(bias.detach(), of_sparse.t() if sparse else nothing, mixed, rest)


class SingleCells:
    """The step of a `CellStack` of LSTMs in evaluation.

    Args:
        left: columns of what stands before the context.
        sparse: whether that is a prenet's.
        mix: where weights stand for the context.
    """

    def __init__(self, stack: CellStack, left: int, *, sparse: bool, mix: Mix | None) -> None:
        self.sparse, self.mixes = sparse, mix is not None
        self.zoneout, self.zones_output = stack.zoneout.p, stack.zones_output
        self.cells = []
        for number, cells in enumerate(stack.cells):
            ((w_ih, w_hh, b_ih, b_hh),) = parameters(cells.layers[0])
            # the first layer reads [left; context], the others what is below them
            sizes = (0, 0, None) if number else (left if sparse else 0, w_ih.shape[1] - left, mix)
            self.cells.append(loaded(KERNELS, "Lstm")(affine(w_ih, b_ih + b_hh, *sizes), w_hh))

    def __call__(self, left: Tensor, context: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """The output (R, D) and the new state."""
        inputs: list[Tensor | None] = [left if self.sparse else None, None, None if self.sparse else left, None]
        inputs[1 if self.mixes else 3] = context
        finals, x = [], left
        for cell, old in zip(self.cells, state, strict=True):
            new = cell.step(*inputs, *old)
            x = new[0]
            if self.zoneout:
                new = tuple(torch.lerp(fresh, last, self.zoneout) for fresh, last in zip(new, old, strict=True))
                x = new[0] if self.zones_output else x
            finals.append(new)
            inputs = [None, None, x, None]
        return x, tuple(finals)


class SingleLook:
    """Attention by a look, whose weights stand for the context; its state is that of `synthesis`'s look."""

    def __init__(self, attention: Any, memory: Any) -> None:
        plan = attending.LookPlan(attention, memory.attention, attention.initial_state(memory.attention), False)
        flat: list[Any] = [None if x is None else x.detach() for x in plan.flat()]
        keys, values, weight, bias, v, filters, projection, *of_agent = flat
        self.num_heads = attention.score.num_heads
        self.mix = mix_of(values, self.num_heads)
        self.location = None if filters is None else plan.location(filters, projection)
        self.width = values.shape[1] * self.num_heads
        self.agent = None if plan.agent is None else SingleAgent(plan.agent, of_agent, self.mix)
        self.progress = plan.progress
        self.of_query = None
        if weight is not None:
            bias = weight.new_zeros(len(weight)) if bias is None else bias
            self.of_query = loaded(KERNELS, "Map")(affine(weight, bias))
        if self.location is not None:
            # filters (H, F, C·W) and U (H, F, D) as M (H, C·W, D)
            matrix = torch.bmm(filters.flatten(2).mT, projection)
            mask = None if memory.attention.mask is None else memory.attention.mask[0]
            of_location = loaded(KERNELS, "Located")
            self.located = of_location(self.of_query, keys[0], matrix, v, mask, plan.sharpening)
        else:
            self.look = attending.Look(plan, flat, 0).look
            self.size = attention.context_size

    def initial(self, memory: Any, rows: Tensor, num_hypotheses: int) -> Tree:
        """What the first step reads."""
        return attending.first_state(self.location, self.progress, rows)

    def step(
        self, query: Tensor, fed: Tensor, memory: Any, sentences: Tensor, state: Tree, alignment: bool, generator: Any
    ) -> tuple[Tensor, Tree, Tensor, Tree]:
        """The weights in the place of the context (R, H·S), the state, the weights and nothing beside them."""
        if self.location is None:
            asked = query if self.of_query is None else self.of_query(None, None, query, None, query.shape[0])
            weights = self.look.once(asked, sentences, query.new_empty(query.shape[0], self.size))
            return weights.flatten(1), (), weights, None
        past, total, *progress = state
        has_sum = self.location.has_sum
        given = past, total, past.shape[2] - has_sum, has_sum
        if not progress:
            weights, past, total, _ = self.located(query, *given)
            return weights.flatten(1), (past, total), weights, None
        last, move = progress
        weights, past, total, last = self.located(query, *given, (last, move))
        flat = weights.flatten(1)
        move = move if self.agent is None else self.agent(flat, fed, query)
        return flat, (past, total, last, move), weights, None


class SingleAgent:
    """The transition agent, which reads weights in the place of the context."""

    def __init__(self, agent: Any, weights: Any, mix: Mix) -> None:
        w_1, b_1, *self.output = weights
        self.reads_frames, self.has_hidden = agent.input_size is not None, w_1 is not None
        weight, bias = (w_1, b_1) if self.has_hidden else self.output
        # [c; o; q]: the context's columns come first
        of_context, rest = weight.tensor_split([agent.context_size], 1)
        self.first = loaded(KERNELS, "Map")(Affine(bias, weight[:0, :0].new_empty(0, len(bias)), mix(of_context), rest))

    def __call__(self, weights: Tensor, fed: Tensor, query: Tensor) -> Tensor:
        """u (R, H)."""
        z = self.first(None, weights, fed if self.reads_frames else None, query, query.shape[0])
        return (linear(z.tanh_(), *self.output) if self.has_hidden else z).sigmoid_()
