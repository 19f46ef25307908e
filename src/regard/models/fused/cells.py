"""Layers of recurrent cells over all steps, and their derivatives, without autograd.

What a layer is fed at every step and its last state stand side by side in one buffer, `given` (T + 1, B, F + D), which
the steps fill; so the gradient of the weights over all steps is one product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.ops.choose import steps_for
from regard.ops.linear import Product, linear

State = tuple[Tensor, ...]
Parameters = tuple[Tensor, Tensor, Tensor, Tensor]


class AbstractLayer(ABC):
    """A layer of cells.

    Args:
        weights: (w_ih, w_hh, b_ih, b_hh).
        beforehand: how many columns of w_ih meet inputs that are known before the first step; the others meet what is
            fed, F features.
        steps, batch: T and B.
    """

    def __init__(self, weights: Parameters, beforehand: int, steps: int, batch: int) -> None:
        self.w_ih, self.w_hh, self.b_ih, self.b_hh = (weight.detach() for weight in weights)
        self.size = self.w_hh.shape[1]
        self.beforehand = beforehand
        self.batch = batch
        self.given = self.w_hh.new_empty(steps + 1, batch, self.w_ih.shape[1] - beforehand + self.size)
        self.hidden = self.given[:, :, -self.size :]
        self.fed = self.given[:, :, : -self.size]
        self.kernels: Any = steps_for("cells", self.w_hh.device.type)

    by_last: Tensor

    @abstractmethod
    def start(self, state: State, inputs: Tensor | None) -> None:
        """Takes the first state, and the inputs (T, B, E) that are known."""

    @abstractmethod
    def forward(self, t: int) -> None:
        """From `fed[t]` to `hidden[t + 1]`."""

    @abstractmethod
    def begin(self) -> None:
        """Makes room for derivatives."""

    @abstractmethod
    def backward(self, t: int, by_hidden: Tensor) -> Tensor:
        """By what was fed, (B, F), from what h_t gets beside `by_last` (B, D); `by_last` is then of h_{t-1}."""

    @abstractmethod
    def by_first(self) -> State:
        """By the first state."""

    @abstractmethod
    def gradients(self, inputs: Tensor | None) -> tuple[Parameters, Tensor | None]:
        """Of the weights and, where there are any, of the inputs that were known beforehand."""

    def _known(self, weight: Tensor, bias: Tensor, inputs: Tensor | None) -> Tensor:
        """What inputs add to the gates, biases included: (T, B, N), or (T, 1, N) without inputs."""
        if inputs is None:
            return bias.expand(len(self.given) - 1, 1, -1)
        return linear(inputs, weight[:, : self.beforehand], bias)

    def _with_inputs(self, by_fed: Tensor, flat: Tensor, inputs: Tensor | None, weight: Tensor) -> Any:
        """The whole gradient of w_ih, from that of the columns that meet what is fed; and that of the inputs."""
        if inputs is None:
            return by_fed, None
        by_inputs = linear(flat, weight[:, : self.beforehand].t()).view_as(inputs)
        return torch.cat([flat.t() @ inputs.flatten(0, 1), by_fed], 1), by_inputs


class LstmLayer(AbstractLayer):
    """c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')."""

    def start(self, state: State, inputs: Tensor | None) -> None:
        self.weight = torch.cat([self.w_ih[:, self.beforehand :], self.w_hh], 1)
        self.product = Product(self.weight, self.batch)
        self.known = self._known(self.w_ih, self.b_ih + self.b_hh, inputs)
        self.gates: list[Tensor] = []
        steps, batch = len(self.given) - 1, self.batch
        self.cells = self.given.new_empty(steps + 1, batch, self.size)
        self.tangents = self.given.new_empty(steps, batch, self.size)
        self.hidden[0], self.cells[0] = state

    def forward(self, t: int) -> None:
        self.gates.append(self.product(self.given[t]))
        self.kernels.lstm(t, self.gates[t], self.known[t], self.cells, self.tangents, self.given)

    def begin(self) -> None:
        self.back = Product(self.weight.t(), self.batch)
        self.by_gates = self.given.new_empty(len(self.gates), self.batch, 4 * self.size)
        self.by_last, self.by_cells = torch.zeros_like(self.cells[0]), torch.zeros_like(self.cells[0])

    def backward(self, t: int, by_hidden: Tensor) -> Tensor:
        by_hidden = by_hidden + self.by_last
        self.kernels.lstm_back(t, self.gates[t], self.cells, self.tangents, by_hidden, self.by_cells, self.by_gates)
        by_given = self.back(self.by_gates[t])
        self.by_last = by_given[:, -self.size :]
        return by_given[:, : -self.size]

    def by_first(self) -> State:
        return self.by_last, self.by_cells

    def gradients(self, inputs: Tensor | None) -> tuple[Parameters, Tensor | None]:
        flat = self.by_gates.flatten(0, 1)
        by_weight, by_bias = flat.t() @ self.given[:-1].flatten(0, 1), flat.sum(0)
        by_w_ih, by_inputs = self._with_inputs(by_weight[:, : -self.size], flat, inputs, self.w_ih)
        return (by_w_ih, by_weight[:, -self.size :], by_bias, by_bias), by_inputs


class GruLayer(AbstractLayer):
    """n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h;  x of what is fed, s of the state.

    As r stands between s_n and the sum, both contributions keep to themselves. The gates of x stand as n, r, z and
    those of s as r, z, n, so that the gradients of both are parts of n, r, z, s_n.
    """

    def start(self, state: State, inputs: Tensor | None) -> None:
        self.w_x = self._turned(self.w_ih)
        self.of_fed = Product(self.w_x[:, self.beforehand :], self.batch)
        self.of_state = Product(self.w_hh, self.batch)
        self.known = self._known(self.w_x, self._turned(self.b_ih), inputs)
        self.recurrent: list[Tensor] = []
        steps, batch = len(self.given) - 1, self.batch
        self.both = self.given.new_empty(steps, batch, 2 * self.size)
        self.new = self.given.new_empty(steps, batch, self.size)
        (self.hidden[0],) = state

    def forward(self, t: int) -> None:
        self.recurrent.append(self.of_state(self.hidden[t], self.b_hh))
        fed = self.of_fed(self.fed[t])
        self.kernels.gru(t, fed, self.known[t], self.recurrent[t], self.both, self.new, self.given)

    def begin(self) -> None:
        self.back_to_fed = Product(self.w_x[:, self.beforehand :].t(), self.batch)
        self.back_to_state = Product(self.w_hh.t(), self.batch)
        self.by_gates = self.given.new_empty(len(self.recurrent), self.batch, 4 * self.size)
        self.by_last = torch.zeros_like(self.hidden[0])

    def backward(self, t: int, by_hidden: Tensor) -> Tensor:
        by_hidden = by_hidden + self.by_last
        by_gates = self.by_gates[t]
        self.kernels.gru_back(t, self.recurrent[t], self.both, self.new, self.given, by_hidden, self.by_gates)
        self.by_last = by_hidden.add_(self.back_to_state(by_gates[:, self.size :]))
        return self.back_to_fed(by_gates[:, : 3 * self.size])

    def by_first(self) -> State:
        return (self.by_last,)

    def gradients(self, inputs: Tensor | None) -> tuple[Parameters, Tensor | None]:
        flat, given = self.by_gates.flatten(0, 1), self.given[:-1].flatten(0, 1)
        of_x, of_state = flat[:, : 3 * self.size], flat[:, self.size :]
        by_fed = of_x.t() @ given[:, : -self.size]
        by_w_x, by_inputs = self._with_inputs(by_fed, of_x, inputs, self.w_x)
        by_w_hh = of_state.t() @ given[:, -self.size :]
        by_bias = flat.sum(0)
        back = 2 * self.size
        by_w_ih = torch.cat([by_w_x[self.size :], by_w_x[: self.size]])
        by_b_ih = torch.cat([by_bias[self.size : self.size + back], by_bias[: self.size]])
        return (by_w_ih, by_w_hh, by_b_ih, by_bias[self.size :]), by_inputs

    def _turned(self, weight: Tensor) -> Tensor:
        """Rows r, z, n as n, r, z."""
        return torch.cat([weight[2 * self.size :], weight[: 2 * self.size]])


LAYERS: dict[str, type[AbstractLayer]] = {"lstm": LstmLayer, "gru": GruLayer}


def stack_of(cell: str, weights: Sequence[Parameters], beforehand: int, steps: int, batch: int) -> list[AbstractLayer]:
    """A layer each; of the first one's inputs `beforehand` features are known before the first step."""
    return [LAYERS[cell](own, 0 if index else beforehand, steps, batch) for index, own in enumerate(weights)]
