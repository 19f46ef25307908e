"""The whole teacher-forced pass of a recurrent decoder as one node of the graph.

Steps depend on each other through the cell and what is fed back alone. So the input's share of the gates is one product
before the loop, and after the backward loop every weight's gradient is one product over all steps. The loop itself
runs without autograd.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.models.fused.cells import AbstractLayer, stack_of
from regard.ops.attend.look import AbstractLook
from regard.ops.choose import steps_for
from regard.ops.linear import Product, linear


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
    flat = [*(tensor for state in first for tensor in state), *masks, *weights.flat()]
    found = _Sweep.apply(plan, len(masks), embedded, *memory, *flat)  # type: ignore[no-untyped-call]
    outputs, cells, contexts, alignments = found
    return outputs.transpose(0, 1), cells.transpose(0, 1), contexts.transpose(0, 1), alignments.permute(1, 2, 0, 3)


class _Sweep(torch.autograd.Function):
    """Time comes first inside."""

    @staticmethod
    def forward(
        ctx: Any, plan: Plan, num_masks: int, embedded: Tensor, keys: Tensor, values: Tensor, mask: Any, *flat: Any
    ) -> Any:
        first, masks, weights = _sorted(plan, num_masks, flat)
        x = embedded.detach().transpose(0, 1).contiguous()
        steps = len(x)
        layers = stack_of(plan.cell, weights.layers, x.shape[2], *x.shape[:2])
        for index, (layer, state) in enumerate(zip(layers, first, strict=True)):
            layer.start(state, x if index == 0 else None)
        kinds = steps_for("attend", x.device.type).LOOKS
        options = {"steps": steps, "num_heads": plan.num_heads, "sharpening": plan.sharpening}
        look = kinds[plan.energies](keys, values, mask, weights.v, **options)
        passing = _AttendsFirst if plan.attends_first else _RecursFirst
        whole = passing(plan, weights, layers, look, masks, x)
        for t in range(steps):
            whole.forward(t)
        results = whole.results()
        ctx.set_materialize_grads(False)
        ctx.whole = whole if any(ctx.needs_input_grad) else None
        ctx.save_for_backward(embedded, keys, values, *results, *flat)
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *by_results: Tensor | None) -> Any:
        ctx.saved_tensors  # noqa: B018, refuses what was changed in place since
        whole = ctx.whole
        whole.begin(by_results)
        for t in range(whole.steps - 1, -1, -1):
            whole.backward(t)
        by_x, by_keys, by_values, by_first, by_weights = whole.gradients()
        by_flat = [*by_first, *(None for _ in whole.masks), *by_weights.flat()]
        return None, None, by_x.transpose(0, 1), by_keys, by_values, None, *by_flat


class _Pass(ABC):
    """The steps of a plan, forward and backward.

    `read` (T, B, ·) is what the readout meets: the cell's output, then the context, where it stands there.
    """

    def __init__(
        self,
        plan: Plan,
        weights: Weights,
        layers: list[AbstractLayer],
        look: AbstractLook,
        masks: Sequence[Tensor],
        x: Tensor,
    ) -> None:
        self.plan, self.weights, self.layers, self.look, self.masks, self.x = plan, weights, layers, look, masks, x
        self.steps, self.batch = x.shape[:2]
        self.size = layers[0].size
        self.query, self.query_bias = weights.query
        self.asking = None if self.query is None else Product(self.query, self.batch)
        self.width = plan.num_heads * look.values.shape[3]
        self.read = x.new_empty(self.steps, self.batch, self.size + self.width)
        self.readout, self.readout_bias = (weight.detach() for weight in weights.readout)

    @abstractmethod
    def forward(self, t: int) -> None:
        """A step."""

    @abstractmethod
    def results(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Outputs, cells, contexts and alignments."""

    def begin(self, by_results: Sequence[Tensor | None]) -> None:
        """Makes room for derivatives; keeps what the results get."""
        self.by_outputs, self.by_cells, by_contexts, self.by_alignments = by_results
        for layer in self.layers:
            layer.begin()
        self.look.begin()
        self.by_contexts = self.x.new_empty(self.steps, self.batch, self.width)
        self.by_told_contexts = by_contexts
        self.back_to_asker = None if self.query is None else Product(self.query.t(), self.batch)

    @abstractmethod
    def backward(self, t: int) -> None:
        """A step backwards."""

    @abstractmethod
    def gradients(self) -> tuple[Tensor, Tensor, Tensor, list[Tensor], Weights]:
        """By inputs, keys, values, first states and weights."""

    def _recur(self, t: int) -> Tensor:
        """The layers' step; `fed` of the first one is there already. What the last one gives, (B, D)."""
        inner = self.x[t]
        for index, layer in enumerate(self.layers):
            if index:
                layer.fed[t] = inner
            layer.forward(t)
            h = layer.hidden[t + 1]
            h = h * self.masks[index][t] if index < len(self.masks) else h
            inner = h + inner if self.plan.residual and index > 0 else h
        return inner

    def _recur_back(self, t: int, by_inner: Tensor) -> Tensor:
        """By what the first layer was fed, from what the last one's output gets."""
        for index in range(len(self.layers) - 1, -1, -1):
            by_h = by_inner * self.masks[index][t] if index < len(self.masks) else by_inner
            by_fed = self.layers[index].backward(t, by_h)
            by_inner = by_fed + by_inner if self.plan.residual and index > 0 else by_fed
        return by_inner

    def _ask(self, t: int, asker: Tensor, contexts: Tensor, column: int) -> None:
        query = asker if self.asking is None else self.asking(asker, self.query_bias)
        self.look.forward(t, query, contexts, column)

    def _ask_back(self, t: int, by_context: Tensor) -> Tensor:
        """By the asker, (B, D), from what the context gets in later computations."""
        if self.by_told_contexts is None:
            self.by_contexts[t] = by_context
        else:
            torch.add(by_context, self.by_told_contexts[t], out=self.by_contexts[t])
        self.look.backward(t, self.by_contexts, None if self.by_alignments is None else self.by_alignments[t])
        by_query = self.look.by_queries[t].flatten(1)
        return by_query if self.back_to_asker is None else self.back_to_asker(by_query)

    def _sum(
        self, by_z: Tensor, read: Sequence[Tensor], asked: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor], Weights]:
        """Every weight's gradient as one product over all steps.

        Args:
            by_z: (T, B, D), of the outputs before their tanh.
            read: what the readout's columns met.
            asked: (T, B, D), what the queries were made of.
        """
        by_layers, by_x = [], self.x
        for index, layer in enumerate(self.layers):
            of_weights, of_inputs = layer.gradients(self.x if index == 0 else None)
            by_layers.append(of_weights)
            by_x = by_x if of_inputs is None else of_inputs
        by_keys, by_values, by_v = self.look.gradients(self.by_contexts)
        by_query: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.query is not None:
            of_query = self.look.by_queries.flatten(2).flatten(0, 1)
            by_query = of_query.t() @ asked.flatten(0, 1), None if self.query_bias is None else of_query.sum(0)
        flat = by_z.flatten(0, 1)
        by_readout = torch.cat([flat.t() @ one.flatten(0, 1) for one in read], 1), flat.sum(0)
        by_first = [part for layer in self.layers for part in layer.by_first()]
        return by_x, by_keys, by_values, by_first, Weights(tuple(by_layers), by_query, by_v, by_readout)


class _RecursFirst(_Pass):
    """s_t = cell([x_t; õ_{t-1}]),  c_t = attend(s_t),  õ_t = tanh(W [s_t; c_t])."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.reading = Product(self.readout, self.batch)
        self.layers[0].fed[0] = 0
        self.outputs = self.layers[0].fed[1:]

    def forward(self, t: int) -> None:
        read = self.read[t]
        read[:, : self.size] = self._recur(t)
        self._ask(t, read[:, : self.size], self.read, self.size)
        torch.tanh(self.reading(read, self.readout_bias), out=self.outputs[t])

    def results(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.outputs[:], self.read[:, :, : self.size], self.read[:, :, self.size :], self.look.weights[:]

    def begin(self, by_results: Sequence[Tensor | None]) -> None:
        super().begin(by_results)
        self.back_to_read = Product(self.readout.t(), self.batch)
        self.by_z = self.x.new_empty(self.steps, self.batch, self.size)
        self.slopes = 1 - self.outputs * self.outputs
        self.by_feed = self.x.new_zeros(self.batch, self.size)

    def backward(self, t: int) -> None:
        by_output = self.by_feed if self.by_outputs is None else self.by_feed + self.by_outputs[t]
        by_read = self.back_to_read(torch.mul(by_output, self.slopes[t], out=self.by_z[t]))
        by_cell = self._ask_back(t, by_read[:, self.size :]) + by_read[:, : self.size]
        by_cell = by_cell if self.by_cells is None else by_cell + self.by_cells[t]
        self.by_feed = self._recur_back(t, by_cell)

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, list[Tensor], Weights]:
        return self._sum(self.by_z, [self.read], self.read[:, :, : self.size])


class _AttendsFirst(_Pass):
    """c_t = attend(s_{t-1}),  s_t = cell([x_t; c_t]),  õ_t = tanh(W [s_t; x_t; c_t]) for all steps at once."""

    def forward(self, t: int) -> None:
        self._ask(t, self.layers[-1].hidden[t], self.layers[0].given, 0)
        self.read[t, :, : self.size] = self._recur(t)

    def results(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        self.cells, self.contexts = self.read[:, :, : self.size], self.layers[0].fed[:-1]
        met = torch.cat([self.cells, self.x, self.contexts], 2)
        self.outputs = linear(met, self.readout, self.readout_bias).tanh_()
        return self.outputs[:], self.cells, self.contexts, self.look.weights[:]

    def begin(self, by_results: Sequence[Tensor | None]) -> None:
        super().begin(by_results)
        outputs = self.outputs
        self.by_z = torch.zeros_like(outputs) if self.by_outputs is None else self.by_outputs * (1 - outputs * outputs)
        by_read = linear(self.by_z, self.readout.t())
        self.by_read = by_read.split([self.size, self.x.shape[2], self.width], 2)

    def backward(self, t: int) -> None:
        by_cell = self.by_read[0][t] if self.by_cells is None else self.by_read[0][t] + self.by_cells[t]
        by_fed = self._recur_back(t, by_cell)
        top = self.layers[-1]
        top.by_last += self._ask_back(t, by_fed + self.by_read[2][t])

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, list[Tensor], Weights]:
        read = [self.cells, self.x, self.contexts]
        by_x, *others = self._sum(self.by_z, read, self.layers[-1].hidden[:-1])
        return by_x + self.by_read[1], *others


def _sorted(
    plan: Plan, num_masks: int, flat: Sequence[Any]
) -> tuple[list[tuple[Tensor, ...]], Sequence[Tensor], Weights]:
    """First states, masks and weights, from one after the other."""
    n, layers = plan.num_tensors, plan.num_layers
    first = [tuple(flat[i : i + n]) for i in range(0, n * layers, n)]
    return first, flat[n * layers : n * layers + num_masks], Weights.of(flat[n * layers + num_masks :])
