"""The steps of a decoder, forward and backward, in both orders of cell and attention; without autograd.

After the backward loop every weight's gradient is one product over all steps. Time comes first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.models.fused.cells import LAYERS
from regard.models.fused.plan import Plan, Weights
from regard.ops.attend.look import AbstractLook
from regard.ops.choose import steps_for
from regard.ops.linear import Product, linear

Results = tuple[Tensor, Tensor, Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor, list[Tensor], Weights]


class AbstractPass(ABC):
    """The steps of a plan.

    Args:
        memory: keys, values and mask.
        first: the first state of every layer.
        masks: (T, B, D), of the dropout between layers.
        x: (T, B, E).
    """

    def __init__(
        self,
        plan: Plan,
        weights: Weights,
        memory: tuple[Tensor, Tensor, Tensor | None],
        first: Sequence[tuple[Tensor, ...]],
        masks: Sequence[Tensor],
        x: Tensor,
    ) -> None:
        self.plan, self.masks, self.x = plan, masks, x
        self.steps, self.batch = x.shape[:2]
        self.layers = [
            LAYERS[plan.cell](own, state, self.steps) for own, state in zip(weights.layers, first, strict=True)
        ]
        self.size = self.layers[0].size
        inputs, self.feed = self.layers[0].fed.tensor_split([x.shape[2]], 2)
        inputs[:-1] = x
        options = {"steps": self.steps, "num_heads": plan.num_heads, "sharpening": plan.sharpening}
        looks = steps_for("attend", x.device.type).LOOKS
        self.look: AbstractLook = looks[plan.energies](*memory, weights.v, **options)
        self.query, self.query_bias = (None if one is None else one.detach() for one in weights.query)
        self.asking = None if self.query is None else Product(self.query, self.batch)
        self.readout, self.readout_bias = (weight.detach() for weight in weights.readout)
        self.width = plan.num_heads * self.look.values.shape[3]

    @abstractmethod
    def forward(self, t: int) -> None:
        """A step."""

    @abstractmethod
    def results(self) -> Results:
        """Outputs, cells, contexts and alignments, once all steps have been taken."""

    @abstractmethod
    def back(self, results: Results, by_results: Sequence[Tensor | None]) -> AbstractBack:
        """What takes the steps back, from what the results get."""

    def _recur(self, t: int) -> Tensor:
        """The layers' step, when the first one has been fed. What the last one gives, (B, D)."""
        inner = self.x[t]
        for index, layer in enumerate(self.layers):
            if index:
                layer.fed[t] = inner
            layer.forward(t)
            h = layer.hidden[t + 1]
            h = h * self.masks[index][t] if index < len(self.masks) else h
            inner = h + inner if self.plan.residual and index > 0 else h
        return inner

    def _ask(self, t: int, asker: Tensor, contexts: Tensor, column: int) -> None:
        query = asker if self.asking is None else self.asking(asker, self.query_bias)
        self.look.forward(t, query, contexts, column)


class AbstractBack(ABC):
    """The derivatives of a pass.

    Args:
        forward: the pass, after its last step.
        results: what it gave.
        by_results: what these get, or None.
    """

    def __init__(self, forward: AbstractPass, results: Results, by_results: Sequence[Tensor | None]) -> None:
        self.passed, self.results = forward, results
        self.by_outputs, self.by_cells, self.by_told_contexts, self.by_alignments = by_results
        self.layers = [layer.back() for layer in forward.layers]
        self.look = forward.look.back()
        self.by_contexts = forward.x.new_empty(forward.steps, forward.batch, forward.width)
        self.by_x = torch.empty_like(forward.x)
        self.to_asker = None if forward.query is None else Product(forward.query.t(), forward.batch)

    @abstractmethod
    def backward(self, t: int) -> None:
        """A step backwards."""

    @abstractmethod
    def gradients(self) -> Gradients:
        """By inputs, keys, values, first states and weights, once all steps have been taken back."""

    def _recur(self, t: int, by_inner: Tensor) -> Tensor:
        """By what was fed back, from what the last layer's output gets."""
        plan, masks = self.passed.plan, self.passed.masks
        for index in range(len(self.layers) - 1, -1, -1):
            by_h = by_inner * masks[index][t] if index < len(masks) else by_inner
            by_fed = self.layers[index].backward(t, by_h)
            by_inner = by_fed + by_inner if plan.residual and index > 0 else by_fed
        self.by_x[t], by_feed = by_inner.tensor_split([self.by_x.shape[2]], 1)
        return by_feed

    def _ask(self, t: int, by_context: Tensor) -> Tensor:
        """By the asker, (B, D), from what the context gets of this step's outputs and of later steps."""
        if self.by_told_contexts is None:
            self.by_contexts[t] = by_context
        else:
            torch.add(by_context, self.by_told_contexts[t], out=self.by_contexts[t])
        self.look.backward(t, self.by_contexts, None if self.by_alignments is None else self.by_alignments[t])
        by_query = self.look.by_queries[t].flatten(1)
        return by_query if self.to_asker is None else self.to_asker(by_query)

    def _sum(self, by_z: Tensor, read: Sequence[Tensor], asked: Tensor) -> Gradients:
        """Every weight's gradient as one product over all steps.

        Args:
            by_z: (T, B, D), by the outputs before their tanh.
            read: what the readout's columns met.
            asked: (T, B, D), what the queries were made of.
        """
        by_layers = tuple(layer.gradients() for layer in self.layers)
        by_keys, by_values, by_v = self.look.gradients(self.by_contexts)
        by_query: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.passed.query is not None:
            of_query = self.look.by_queries.flatten(2).flatten(0, 1)
            by_bias = None if self.passed.query_bias is None else of_query.sum(0)
            by_query = of_query.t() @ asked.flatten(0, 1), by_bias
        flat = by_z.flatten(0, 1)
        by_readout = torch.cat([flat.t() @ one.flatten(0, 1) for one in read], 1), flat.sum(0)
        by_first = [part for layer in self.layers for part in layer.by_first()]
        return self.by_x, by_keys, by_values, by_first, Weights(by_layers, by_query, by_v, by_readout)


class RecursFirst(AbstractPass):
    """s_t = cell([x_t; õ_{t-1}]),  c_t = attend(s_t),  õ_t = tanh(W [s_t; c_t]).

    `read` (T, B, D + V) is what the readout meets.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.read = self.x.new_empty(self.steps, self.batch, self.size + self.width)
        self.reading = Product(self.readout, self.batch)
        self.feed[0] = 0

    def forward(self, t: int) -> None:
        read = self.read[t]
        read[:, : self.size] = self._recur(t)
        self._ask(t, read[:, : self.size], self.read, self.size)
        first = self.layers[0]
        first.kernels.read_out(t, self.reading(read, self.readout_bias), first.given, self.x.shape[2])

    def results(self) -> Results:
        cells, contexts = self.read.tensor_split([self.size], 2)
        return self.feed[1:], cells, contexts, self.look.weights[:]

    def back(self, results: Results, by_results: Sequence[Tensor | None]) -> AbstractBack:
        return RecursFirstBack(self, results, by_results)


class RecursFirstBack(AbstractBack):
    """Of `RecursFirst`."""

    def __init__(self, forward: RecursFirst, results: Results, by_results: Sequence[Tensor | None]) -> None:
        super().__init__(forward, results, by_results)
        self.read = forward.read
        self.to_read = Product(forward.readout.t(), forward.batch)
        self.by_z = forward.x.new_empty(results[0].shape)
        self.by_feed = torch.zeros_like(self.by_z[0])
        self.told = self.by_z[:0] if self.by_outputs is None else self.by_outputs.contiguous()

    def backward(self, t: int) -> None:
        first, column = self.passed.layers[0], self.passed.x.shape[2]
        first.kernels.read_out_back(t, self.by_feed, self.told, first.given, column, self.by_z)
        by_read = self.to_read(self.by_z[t])
        by_cell, by_context = by_read.tensor_split([self.passed.size], 1)
        by_cell = self._ask(t, by_context) + by_cell
        by_cell = by_cell if self.by_cells is None else by_cell + self.by_cells[t]
        self.by_feed.copy_(self._recur(t, by_cell))

    def gradients(self) -> Gradients:
        return self._sum(self.by_z, [self.read], self.results[1])


class AttendsFirst(AbstractPass):
    """c_t = attend(s_{t-1}),  s_t = cell([x_t; c_t]),  õ_t = tanh(W [s_t; x_t; c_t]) for all steps at once."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.cells = self.x.new_empty(self.steps, self.batch, self.size)

    def forward(self, t: int) -> None:
        self._ask(t, self.layers[-1].hidden[t], self.layers[0].given, self.x.shape[2])
        self.cells[t] = self._recur(t)

    def results(self) -> Results:
        contexts = self.feed[:-1]
        outputs = linear(torch.cat([self.cells, self.x, contexts], 2), self.readout, self.readout_bias).tanh_()
        return outputs, self.cells[:], contexts, self.look.weights[:]

    def back(self, results: Results, by_results: Sequence[Tensor | None]) -> AbstractBack:
        return AttendsFirstBack(self, results, by_results)


class AttendsFirstBack(AbstractBack):
    """Of `AttendsFirst`."""

    def __init__(self, forward: AttendsFirst, results: Results, by_results: Sequence[Tensor | None]) -> None:
        super().__init__(forward, results, by_results)
        slopes = 1 - results[0] * results[0]
        self.by_z = torch.zeros_like(slopes) if self.by_outputs is None else self.by_outputs * slopes
        by_read = linear(self.by_z, forward.readout.t())
        self.by_read = by_read.split([forward.size, forward.x.shape[2], forward.width], 2)

    def backward(self, t: int) -> None:
        by_cell = self.by_read[0][t] if self.by_cells is None else self.by_read[0][t] + self.by_cells[t]
        by_context = self._recur(t, by_cell) + self.by_read[2][t]
        self.layers[-1].by_last.add_(self._ask(t, by_context))

    def gradients(self) -> Gradients:
        _, cells, contexts, _ = self.results
        asked = self.passed.layers[-1].hidden[:-1]
        by_x, *others = self._sum(self.by_z, [cells, self.passed.x, contexts], asked)
        return (by_x + self.by_read[1], *others)


PASSES: dict[bool, type[AbstractPass]] = {True: AttendsFirst, False: RecursFirst}
"""By whether attention comes first."""
