"""The steps of a decoder, forward and backward, in both orders of cell and attention, without autograd.

    recur_then_attend:  s_t = cell([x_t; õ_{t-1}]),  c_t = attend(W_q s_t),      õ_t = tanh(W [s_t; c_t] + b)
    attend_then_recur:  c_t = attend(W_q s_{t-1}),   s_t = cell([x_t; c_t]),     õ_t = tanh(W [s_t; x_t; c_t] + b)

The readout may be without tanh and without b. Where attention comes first, a gate of s_{t-1} may multiply c_t. Where
the cell comes first, c_{t-1} may be fed to it in the place of õ_{t-1}. The readout may be left to the caller where
attention comes first or c is fed.

Every step writes into buffers of all steps, where the next one and the backward steps find it: time comes first, so
that a step is one contiguous block. What the backward loop leaves are the gradients of products' results at every step;
after it each weight's gradient is one product over all T·B rows (`_sum`), which is what makes the pass faster than
autograd's T small ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.layers.cells.buffered import LAYERS
from regard.models.fused.located import Located
from regard.models.fused.plan import Plan, Weights
from regard.ops.attend.look import AbstractLook
from regard.ops.choose import loaded, steps_for
from regard.ops.linear import Product, linear

Results = tuple[Tensor, Tensor, Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor, list[Tensor], Weights]


class AbstractPass(ABC):
    """The steps of a plan.

    Args:
        memory: keys, values and mask.
        before: of located energies the weights before the first step, and their sum.
        first: the first state of every layer.
        masks: (T, B, D), of the dropout between layers.
        x: (T, B, E).
    """

    def __init__(
        self,
        plan: Plan,
        weights: Weights,
        memory: tuple[Tensor, Tensor, Tensor | None],
        before: tuple[Tensor | None, Tensor | None],
        first: Sequence[tuple[Tensor, ...]],
        masks: Sequence[Tensor],
        x: Tensor,
    ) -> None:
        self.plan, self.masks, self.x = plan, masks, x
        self.steps, self.batch = x.shape[:2]
        self.layers = [
            LAYERS[plan.cell](layer, state, self.steps) for layer, state in zip(weights.layers, first, strict=True)
        ]
        self.size = self.layers[0].size
        # the first layer is fed [x_t; what is fed back]: both are columns of its buffer, which needs no concatenation
        inputs, self.feed = self.layers[0].fed.tensor_split([x.shape[2]], 2)
        inputs[:-1] = x
        options = {"steps": self.steps, "num_heads": plan.num_heads, "sharpening": plan.sharpening}
        self.look: AbstractLook
        if plan.located is None:
            looks = steps_for("attend", x.device.type).LOOKS
            self.look = looks[plan.energies](*memory, weights.v, **options)
        else:
            located = loaded("regard.ops.attend.location", "LocationLook")
            self.look = located(*memory, weights.v, location=location(plan.located, weights.located, before), **options)
        self.query, self.query_bias = (None if tensor is None else tensor.detach() for tensor in weights.query)
        self.of_query = None if self.query is None else Product(self.query, self.batch)
        self.readout, self.readout_bias = (None if weight is None else weight.detach() for weight in weights.readout)
        self.width = plan.num_heads * self.look.values.shape[3]

    @abstractmethod
    def forward(self, t: int) -> None:
        """A step."""

    @abstractmethod
    def results(self) -> Results:
        """Outputs, cells, contexts and alignments, once all steps have been taken."""

    @abstractmethod
    def reverse(self, results: Results, grad_results: Sequence[Tensor | None]) -> AbstractBackward:
        """The backward steps, from the gradients of the results."""

    def _recur(self, t: int) -> Tensor:
        """The layers' step, when the first one has been fed. The output of the last one, (B, D)."""
        inner = self.x[t]
        for index, layer in enumerate(self.layers):
            if index:
                layer.fed[t] = inner
            layer.forward(t)
            h = layer.hidden[t + 1]  # (B, D)
            h = h * self.masks[index][t] if index < len(self.masks) else h
            inner = h + inner if self.plan.residual and index > 0 else h
        return inner

    def _attend(self, t: int, s: Tensor, contexts: Tensor, column: int) -> None:
        query = s if self.of_query is None else self.of_query(s, self.query_bias)
        self.look.forward(t, query, contexts, column)


class AbstractBackward(ABC):
    """A pass backward, from its last step to its first.

    Args:
        forward: the pass, after its last step.
        results: its results.
        grad_results: their gradients, or None.
    """

    def __init__(self, forward: AbstractPass, results: Results, grad_results: Sequence[Tensor | None]) -> None:
        self.passed, self.results = forward, results
        self.grad_outputs, self.grad_cells, self.grad_result_contexts, self.grad_alignments = grad_results
        self.layers = [layer.reverse() for layer in forward.layers]
        self.look = forward.look.reverse()
        self.grad_contexts = forward.x.new_empty(forward.steps, forward.batch, forward.width)
        self.grad_x = torch.empty_like(forward.x)
        self.to_s = None if forward.query is None else Product(forward.query.t(), forward.batch)

    @abstractmethod
    def backward(self, t: int) -> None:
        """A step backward."""

    @abstractmethod
    def gradients(self) -> Gradients:
        """The gradients of inputs, keys, values, first states and weights, after the backward step of step 0."""

    def _recur(self, t: int, grad_inner: Tensor) -> Tensor:
        """The gradient of what was fed back (B, F), from that of the last layer's output (B, D)."""
        plan, masks = self.passed.plan, self.passed.masks
        # the layers of `_recur` in reverse; a residual hands its gradient on beside the layer
        for index in range(len(self.layers) - 1, -1, -1):
            grad_h = grad_inner * masks[index][t] if index < len(masks) else grad_inner
            grad_fed = self.layers[index].backward(t, grad_h)
            grad_inner = grad_fed + grad_inner if plan.residual and index > 0 else grad_fed
        self.grad_x[t], grad_feed = grad_inner.tensor_split([self.grad_x.shape[2]], 1)
        return grad_feed

    def _attend(self, t: int, grad_context: Tensor) -> Tensor:
        """The gradient of s (B, D), from the context's (B, H·V) of this step's outputs and of later steps."""
        if self.grad_result_contexts is None:
            self.grad_contexts[t] = grad_context
        else:
            torch.add(grad_context, self.grad_result_contexts[t], out=self.grad_contexts[t])
        return self._look(t)

    def _look(self, t: int) -> Tensor:
        """The gradient of s (B, D), from `grad_contexts[t]`."""
        self.look.backward(t, self.grad_contexts, None if self.grad_alignments is None else self.grad_alignments[t])
        grad_query = self.look.grad_queries[t].flatten(1)
        return grad_query if self.to_s is None else self.to_s(grad_query)

    def _sum(self, grad_z: Tensor, read: Sequence[Tensor], attending: Tensor) -> Gradients:
        """Every weight's gradient as one product over all steps.

        Args:
            grad_z: (T, B, F), of z in õ = tanh(z) or õ = z.
            read: what the readout's columns were multiplied by.
            attending: (T, B, D), what the queries were made of.
        """
        # (T·B rows): W_ih and W_hh of every layer, keys, values and v
        grad_layers = tuple(layer.gradients() for layer in self.layers)
        grad_keys, grad_values, grad_v = self.look.gradients(self.grad_contexts)
        grad_query: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.passed.query is not None:
            grad_queries = self.look.grad_queries.flatten(2).flatten(0, 1)
            grad_bias = None if self.passed.query_bias is None else grad_queries.sum(0)
            grad_query = grad_queries.t() @ attending.flatten(0, 1), grad_bias
        # the readout: grad_W = grad_zᵀ [what was read], its columns in the order of `read`
        flat = grad_z.flatten(0, 1)
        grad_readout: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.passed.plan.reads_out:
            grad_weight = torch.cat([flat.t() @ part.flatten(0, 1) for part in read], 1)
            grad_readout = grad_weight, None if self.passed.readout_bias is None else flat.sum(0)
        grad_first = [part for layer in self.layers for part in layer.grad_first()]
        look: Any = self.look
        grad_located = look.of_filters() if self.passed.plan.located is not None else (None, None)
        weights = Weights(grad_layers, grad_query, grad_v, grad_readout, grad_located)
        return self.grad_x, grad_keys, grad_values, grad_first, weights


Pair = tuple[Tensor | None, Tensor | None]


def location(plan: Located, weights: Pair, before: Pair) -> Any:
    """What a located look takes beside the memory: filters and projection, and weights before the first step."""
    (filters, projection), (recent, total) = weights, before
    assert filters is not None
    assert projection is not None
    assert recent is not None
    assert total is not None
    kind = loaded("regard.ops.attend.location", "Location")
    tensors = filters.detach(), projection.detach(), recent.detach(), total.detach()
    return kind(*tensors, plan.has_recent, plan.has_sum, plan.is_detached, plan.grid)


class RecursFirst(AbstractPass):
    """The cell first: each step needs the readout or the context of the one before.

    `read` (T, B, D + V) is [s_t; c_t]: the cell and the look write into its columns, and the readout multiplies it.
    """

    def __init__(self, *inputs: Any) -> None:
        super().__init__(*inputs)
        self.read = self.x.new_empty(self.steps, self.batch, self.size + self.width)
        self.reading = None if self.readout is None else Product(self.readout, self.batch)
        self.feed[0] = 0

    def forward(self, t: int) -> None:
        read = self.read[t]  # (B, D + V)
        read[:, : self.size] = self._recur(t)
        self._attend(t, read[:, : self.size], self.read, self.size)
        if self.reading is None:
            self.feed[t + 1] = read[:, self.size :]
            return
        z = self.reading(read, self.readout_bias)
        if self.plan.tanh:
            self.layers[0].kernels.read_out(t, z, self.layers[0].inputs, self.x.shape[2])
        else:
            self.feed[t + 1] = z

    def results(self) -> Results:
        cells, contexts = self.read.tensor_split([self.size], 2)
        outputs = self.read[:, :, :0].clone() if self.reading is None else self.feed[1:]
        return outputs, cells, contexts, self.look.weights[:]

    def reverse(self, results: Results, grad_results: Sequence[Tensor | None]) -> AbstractBackward:
        return RecursFirstBackward(self, results, grad_results)


class RecursFirstBackward(AbstractBackward):
    """Of `RecursFirst`."""

    def __init__(self, forward: RecursFirst, results: Results, grad_results: Sequence[Tensor | None]) -> None:
        super().__init__(forward, results, grad_results)
        self.read = forward.read
        self.to_read = None if forward.readout is None else Product(forward.readout.t(), forward.batch)
        self.grad_z = forward.x.new_empty(results[0].shape)
        self.grad_feed = torch.zeros_like(forward.feed[0])
        self.grad_output_rows = self.grad_z[:0] if self.grad_outputs is None else self.grad_outputs.contiguous()

    def backward(self, t: int) -> None:
        # c_t to the query and so to s_t; s_t to the cell, which gives x_t and what was fed back theirs
        if self.to_read is None:
            grad_cell = self._attend(t, self.grad_feed)
        else:
            grad_read = self.to_read(self._through_tanh(t))
            grad_cell, grad_context = grad_read.tensor_split([self.passed.size], 1)
            grad_cell = self._attend(t, grad_context) + grad_cell
        grad_cell = grad_cell if self.grad_cells is None else grad_cell + self.grad_cells[t]
        self.grad_feed.copy_(self._recur(t, grad_cell))

    def _through_tanh(self, t: int) -> Tensor:
        """The gradient of z (B, F), from those of õ_t: of the outputs and, by feedback, of step t + 1."""
        first, column, rows = self.passed.layers[0], self.passed.x.shape[2], self.grad_output_rows
        if self.passed.plan.tanh:
            first.kernels.read_out_backward(t, self.grad_feed, rows, first.inputs, column, self.grad_z)
        else:
            self.grad_z[t] = self.grad_feed + rows[t] if len(rows) else self.grad_feed
        return self.grad_z[t]

    def gradients(self) -> Gradients:
        return self._sum(self.grad_z, [self.read], self.results[1])


class AttendsFirst(AbstractPass):
    """Attention first: nothing of the readout is fed back, so it is one product for all steps after the loop.

    A gate β_t = σ(W s_{t-1} + b) multiplies the look's sums, which are kept (T, B, V), into what the cell is fed.
    """

    def __init__(self, plan: Plan, weights: Weights, *inputs: Any) -> None:
        super().__init__(plan, weights, *inputs)
        self.cells = self.x.new_empty(self.steps, self.batch, self.size)
        self.gate, self.gate_bias = (None if weight is None else weight.detach() for weight in weights.gate)
        self.sums = self.x.new_empty(self.steps if plan.num_gates else 0, self.batch, self.width)
        self.gates = self.x.new_empty(len(self.sums), self.batch, plan.num_gates)

    def forward(self, t: int) -> None:
        s = self.layers[-1].hidden[t]
        if self.gate is None:
            self._attend(t, s, self.layers[0].inputs, self.x.shape[2])
        else:
            self._attend(t, s, self.sums, 0)
            torch.sigmoid(torch.nn.functional.linear(s, self.gate, self.gate_bias), out=self.gates[t])
            torch.mul(self.by_gate(self.sums[t]), self.gates[t][..., None], out=self.by_gate(self.feed[t]))
        self.cells[t] = self._recur(t)

    def by_gate(self, context: Tensor) -> Tensor:
        """(B, V) as (B, G, V / G), the features that a gate multiplies."""
        return context.unflatten(1, (self.plan.num_gates, -1))

    def results(self) -> Results:
        contexts = self.feed[:-1]
        if self.readout is None:
            return self.cells[:, :, :0].clone(), self.cells[:], contexts, self.look.weights[:]
        outputs = linear(torch.cat([self.cells, self.x, contexts], 2), self.readout, self.readout_bias)
        outputs = outputs.tanh_() if self.plan.tanh else outputs
        return outputs, self.cells[:], contexts, self.look.weights[:]

    def reverse(self, results: Results, grad_results: Sequence[Tensor | None]) -> AbstractBackward:
        return AttendsFirstBackward(self, results, grad_results)


class AttendsFirstBackward(AbstractBackward):
    """Of `AttendsFirst`."""

    def __init__(self, forward: AttendsFirst, results: Results, grad_results: Sequence[Tensor | None]) -> None:
        super().__init__(forward, results, grad_results)
        self.attended = forward
        sizes = [forward.size, forward.x.shape[2], forward.width]
        # the readout backward, for all steps before the loop: z (T, B, D), then s_t, x_t and c_t
        if forward.readout is None:
            self.grad_z = forward.x[:, :, :0]
            nothing = forward.x.new_zeros(1, 1, 1)
            self.grad_read = tuple(nothing.expand(forward.steps, forward.batch, size) for size in sizes)
        else:
            slopes = 1 - results[0] * results[0] if forward.plan.tanh else torch.ones_like(results[0])
            self.grad_z = torch.zeros_like(slopes) if self.grad_outputs is None else self.grad_outputs * slopes
            self.grad_read = linear(self.grad_z, forward.readout.t()).split(sizes, 2)
        self.grad_gates = torch.empty_like(forward.gates)  # of what σ takes

    def backward(self, t: int) -> None:
        # s_t from the readout (and the caller) to the cell, which gives c_t its part; c_t to the query, s_{t-1}
        grad_cell = self.grad_read[0][t] if self.grad_cells is None else self.grad_read[0][t] + self.grad_cells[t]
        grad_context = self._recur(t, grad_cell) + self.grad_read[2][t]
        forward, weight = self.attended, self.attended.gate
        if weight is None:
            self.layers[-1].grad_last.add_(self._attend(t, grad_context))
            return
        # c = β ⊙ sums: the gate, and the sums in the place of c
        if self.grad_result_contexts is not None:
            grad_context = grad_context + self.grad_result_contexts[t]
        grad_parts, gate = forward.by_gate(grad_context), forward.gates[t]
        grad_gate = (grad_parts * forward.by_gate(forward.sums[t])).sum(2)
        torch.mul(grad_gate, gate - gate * gate, out=self.grad_gates[t])
        self.layers[-1].grad_last.addmm_(self.grad_gates[t], weight)
        self.grad_contexts[t] = (grad_parts * gate[..., None]).flatten(1)
        self.layers[-1].grad_last.add_(self._look(t))

    def gradients(self) -> Gradients:
        _, cells, contexts, _ = self.results
        attending = self.passed.layers[-1].hidden[:-1]
        grad_x, grad_keys, grad_values, grad_first, weights = self._sum(
            self.grad_z, [cells, self.passed.x, contexts], attending
        )
        if self.attended.gate is not None:
            rows = self.grad_gates.flatten(0, 1)
            weights = replace(weights, gate=(rows.t() @ attending.flatten(0, 1), rows.sum(0)))
        return grad_x + self.grad_read[1], grad_keys, grad_values, grad_first, weights


PASSES: dict[bool, type[AbstractPass]] = {True: AttendsFirst, False: RecursFirst}
"""By whether attention comes first."""
