"""Layers of recurrent cells over all steps, and their derivatives, without autograd.

What a layer is fed at every step and its last state stand side by side in one buffer, `given` (T + 1, B, F + D), which
the steps fill; so the gradient of the weights over all steps is one product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
        weights: (w_ih, w_hh, b_ih, b_hh). Inputs meet the first columns of w_ih; the others meet what is fed, F
            features.
        state: before the first step.
        inputs: (T, B, E), known before the first step, or None.
        steps: T.
    """

    def __init__(self, weights: Parameters, state: State, inputs: Tensor | None, steps: int) -> None:
        self.w_ih, self.w_hh, self.b_ih, self.b_hh = (weight.detach() for weight in weights)
        self.inputs = inputs
        self.beforehand = 0 if inputs is None else inputs.shape[2]
        self.steps = steps
        self.batch, self.size = state[0].shape
        self.given = self.w_hh.new_empty(steps + 1, self.batch, self.w_ih.shape[1] - self.beforehand + self.size)
        self.fed, self.hidden = self.given[:, :, : -self.size], self.given[:, :, -self.size :]
        self.hidden[0] = state[0]
        self.kernels: Any = steps_for("cells", self.w_hh.device.type)

    @abstractmethod
    def forward(self, t: int) -> None:
        """From `fed[t]` to `hidden[t + 1]`."""

    @abstractmethod
    def back(self) -> AbstractLayerBack:
        """What takes the steps back."""

    def know(self, weight: Tensor, bias: Tensor) -> Tensor:
        """What inputs add to the gates, biases included: (T, B, N), or (T, 1, N) without inputs."""
        if self.inputs is None:
            return bias.expand(self.steps, 1, -1)
        return linear(self.inputs, weight[:, : self.beforehand], bias)


class AbstractLayerBack(ABC):
    """The derivatives of a layer.

    Args:
        layer: after its last step.
    """

    def __init__(self, layer: AbstractLayer) -> None:
        self.by_gates = layer.given.new_empty(layer.steps, layer.batch, 4 * layer.size)
        self.by_last = torch.zeros_like(layer.hidden[0])

    @abstractmethod
    def backward(self, t: int, by_hidden: Tensor) -> Tensor:
        """By what was fed, (B, F), from what h_t gets beside `by_last` (B, D); `by_last` is then of h_{t-1}."""

    @abstractmethod
    def by_first(self) -> State:
        """By the first state."""

    @abstractmethod
    def gradients(self) -> tuple[Parameters, Tensor | None]:
        """Of the weights and, where there are any, of the inputs."""


class LstmLayer(AbstractLayer):
    """c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')."""

    def __init__(self, weights: Parameters, state: State, inputs: Tensor | None, steps: int) -> None:
        super().__init__(weights, state, inputs, steps)
        self.weight = torch.cat([self.w_ih[:, self.beforehand :], self.w_hh], 1)
        self.product = Product(self.weight, self.batch)
        self.known = self.know(self.w_ih, self.b_ih + self.b_hh)
        self.gates: list[Tensor] = []
        self.cells = self.given.new_empty(steps + 1, self.batch, self.size)
        self.tangents = self.given.new_empty(steps, self.batch, self.size)
        self.cells[0] = state[1]

    def forward(self, t: int) -> None:
        self.gates.append(self.product(self.given[t]))
        self.kernels.lstm(t, self.gates[t], self.known[t], self.cells, self.tangents, self.given)

    def back(self) -> AbstractLayerBack:
        return LstmBack(self)


class LstmBack(AbstractLayerBack):
    """Of an `LstmLayer`."""

    def __init__(self, layer: LstmLayer) -> None:
        super().__init__(layer)
        self.layer = layer
        self.product = Product(layer.weight.t(), layer.batch)
        self.by_cells = torch.zeros_like(self.by_last)

    def backward(self, t: int, by_hidden: Tensor) -> Tensor:
        layer = self.layer
        by_hidden = by_hidden + self.by_last
        layer.kernels.lstm_back(t, layer.gates[t], layer.cells, layer.tangents, by_hidden, self.by_cells, self.by_gates)
        by_fed, by_last = self.product(self.by_gates[t]).tensor_split([-layer.size], 1)
        self.by_last.copy_(by_last)
        return by_fed

    def by_first(self) -> State:
        return self.by_last, self.by_cells

    def gradients(self) -> tuple[Parameters, Tensor | None]:
        layer, flat = self.layer, self.by_gates.flatten(0, 1)
        by_w_ih, by_w_hh = (flat.t() @ layer.given[:-1].flatten(0, 1)).tensor_split([-layer.size], 1)
        by_bias, by_inputs = flat.sum(0), None
        if layer.inputs is not None:
            by_w_ih = torch.cat([flat.t() @ layer.inputs.flatten(0, 1), by_w_ih], 1)
            by_inputs = linear(flat, layer.w_ih[:, : layer.beforehand].t()).view_as(layer.inputs)
        return (by_w_ih, by_w_hh, by_bias, by_bias), by_inputs


class GruLayer(AbstractLayer):
    """n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h;  x of what is fed, s of the state.

    As r stands between s_n and the sum, both contributions keep to themselves. The gates of x stand as n, r, z and
    those of s as r, z, n, so that the gradients of both are parts of n, r, z, s_n.
    """

    def __init__(self, weights: Parameters, state: State, inputs: Tensor | None, steps: int) -> None:
        super().__init__(weights, state, inputs, steps)
        self.w_x, b_x = (torch.cat([x[2 * self.size :], x[: 2 * self.size]]) for x in (self.w_ih, self.b_ih))
        self.of_fed = Product(self.w_x[:, self.beforehand :], self.batch)
        self.of_state = Product(self.w_hh, self.batch)
        self.known = self.know(self.w_x, b_x)
        self.recurrent: list[Tensor] = []
        self.both = self.given.new_empty(steps, self.batch, 2 * self.size)
        self.new = self.given.new_empty(steps, self.batch, self.size)

    def forward(self, t: int) -> None:
        self.recurrent.append(self.of_state(self.hidden[t], self.b_hh))
        fed = self.of_fed(self.fed[t])
        self.kernels.gru(t, fed, self.known[t], self.recurrent[t], self.both, self.new, self.given)

    def back(self) -> AbstractLayerBack:
        return GruBack(self)


class GruBack(AbstractLayerBack):
    """Of a `GruLayer`."""

    def __init__(self, layer: GruLayer) -> None:
        super().__init__(layer)
        self.layer = layer
        self.to_fed = Product(layer.w_x[:, layer.beforehand :].t(), layer.batch)
        self.to_state = Product(layer.w_hh.t(), layer.batch)

    def backward(self, t: int, by_hidden: Tensor) -> Tensor:
        layer, by_gates = self.layer, self.by_gates[t]
        self.by_last.add_(by_hidden)
        layer.kernels.gru_back(t, layer.recurrent[t], layer.both, layer.new, layer.given, self.by_last, self.by_gates)
        self.by_last.add_(self.to_state(by_gates[:, layer.size :]))
        return self.to_fed(by_gates[:, : 3 * layer.size])

    def by_first(self) -> State:
        return (self.by_last,)

    def gradients(self) -> tuple[Parameters, Tensor | None]:
        layer, flat = self.layer, self.by_gates.flatten(0, 1)
        of_x, of_state, by_bias = flat[:, : 3 * layer.size], flat[:, layer.size :], flat.sum(0)
        by_fed, by_w_hh = (
            gates.t() @ given[:-1].flatten(0, 1) for gates, given in ((of_x, layer.fed), (of_state, layer.hidden))
        )
        by_w_x, by_inputs = by_fed, None
        if layer.inputs is not None:
            by_w_x = torch.cat([of_x.t() @ layer.inputs.flatten(0, 1), by_fed], 1)
            by_inputs = linear(of_x, layer.w_x[:, : layer.beforehand].t()).view_as(layer.inputs)
        by_w_ih, by_b_ih = (torch.cat([x[layer.size :], x[: layer.size]]) for x in (by_w_x, by_bias[: 3 * layer.size]))
        return (by_w_ih, by_w_hh, by_b_ih, by_bias[layer.size :]), by_inputs


LAYERS: dict[str, type[AbstractLayer]] = {"lstm": LstmLayer, "gru": GruLayer}
