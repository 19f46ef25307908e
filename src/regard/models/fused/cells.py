"""Layers of recurrent cells over all steps, and their derivatives, without autograd.

What a layer is fed at every step and its last state stand side by side in one buffer, `given` (T + 1, B, F + D), which
the steps fill: a step is one product, and so is the gradient of the weights over all steps. (To multiply inputs that
are known before the first step by their weights at once is no faster, since it has to be kept and added.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from regard.ops.choose import steps_for
from regard.ops.linear import Product

State = tuple[Tensor, ...]
Parameters = tuple[Tensor, Tensor, Tensor, Tensor]


class AbstractLayer(ABC):
    """A layer of cells.

    Args:
        weights: (w_ih, w_hh, b_ih, b_hh).
        state: before the first step.
        steps: T.
    """

    def __init__(self, weights: Parameters, state: State, steps: int) -> None:
        self.w_ih, self.w_hh, self.b_ih, self.b_hh = (weight.detach() for weight in weights)
        self.steps = steps
        self.batch, self.size = state[0].shape
        self.given = self.w_hh.new_empty(steps + 1, self.batch, self.w_ih.shape[1] + self.size)
        self.fed, self.hidden = self.given[:, :, : -self.size], self.given[:, :, -self.size :]
        self.hidden[0] = state[0]
        self.kernels: Any = steps_for("cells", self.w_hh.device.type)

    @abstractmethod
    def forward(self, t: int) -> None:
        """From `fed[t]` to `hidden[t + 1]`."""

    @abstractmethod
    def back(self) -> AbstractLayerBack:
        """What takes the steps back."""


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
    def gradients(self) -> Parameters:
        """Of the weights."""


class LstmLayer(AbstractLayer):
    """c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')."""

    def __init__(self, weights: Parameters, state: State, steps: int) -> None:
        super().__init__(weights, state, steps)
        self.weight = torch.cat([self.w_ih, self.w_hh], 1)
        self.product = Product(self.weight, self.batch)
        self.bias = (self.b_ih + self.b_hh)[None]
        self.gates: list[Tensor] = []
        self.cells = self.given.new_empty(steps + 1, self.batch, self.size)
        self.tangents = self.given.new_empty(steps, self.batch, self.size)
        self.cells[0] = state[1]

    def forward(self, t: int) -> None:
        self.gates.append(self.product(self.given[t]))
        self.kernels.lstm(t, self.gates[t], self.bias, self.cells, self.tangents, self.given)

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

    def gradients(self) -> Parameters:
        flat = self.by_gates.flatten(0, 1)
        by_weight, by_bias = flat.t() @ self.layer.given[:-1].flatten(0, 1), flat.sum(0)
        by_w_ih, by_w_hh = by_weight.tensor_split([-self.layer.size], 1)
        return by_w_ih, by_w_hh, by_bias, by_bias


class GruLayer(AbstractLayer):
    """n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h;  x of what is fed, s of the state.

    As r stands between s_n and the sum, both contributions keep to themselves. The gates of x stand as n, r, z and
    those of s as r, z, n, so that the gradients of both are parts of n, r, z, s_n.
    """

    def __init__(self, weights: Parameters, state: State, steps: int) -> None:
        super().__init__(weights, state, steps)
        self.w_x, b_x = (torch.cat([x[2 * self.size :], x[: 2 * self.size]]) for x in (self.w_ih, self.b_ih))
        self.of_fed = Product(self.w_x, self.batch)
        self.of_state = Product(self.w_hh, self.batch)
        self.bias = b_x[None]
        self.recurrent: list[Tensor] = []
        self.both = self.given.new_empty(steps, self.batch, 2 * self.size)
        self.new = self.given.new_empty(steps, self.batch, self.size)

    def forward(self, t: int) -> None:
        self.recurrent.append(self.of_state(self.hidden[t], self.b_hh))
        fed = self.of_fed(self.fed[t])
        self.kernels.gru(t, fed, self.bias, self.recurrent[t], self.both, self.new, self.given)

    def back(self) -> AbstractLayerBack:
        return GruBack(self)


class GruBack(AbstractLayerBack):
    """Of a `GruLayer`."""

    def __init__(self, layer: GruLayer) -> None:
        super().__init__(layer)
        self.layer = layer
        self.to_fed = Product(layer.w_x.t(), layer.batch)
        self.to_state = Product(layer.w_hh.t(), layer.batch)

    def backward(self, t: int, by_hidden: Tensor) -> Tensor:
        layer, by_gates = self.layer, self.by_gates[t]
        self.by_last.add_(by_hidden)
        layer.kernels.gru_back(t, layer.recurrent[t], layer.both, layer.new, layer.given, self.by_last, self.by_gates)
        self.by_last.add_(self.to_state(by_gates[:, layer.size :]))
        return self.to_fed(by_gates[:, : 3 * layer.size])

    def by_first(self) -> State:
        return (self.by_last,)

    def gradients(self) -> Parameters:
        layer, flat = self.layer, self.by_gates.flatten(0, 1)
        of_x, of_state, by_bias = flat[:, : 3 * layer.size], flat[:, layer.size :], flat.sum(0)
        by_w_x, by_w_hh = (
            gates.t() @ given[:-1].flatten(0, 1) for gates, given in ((of_x, layer.fed), (of_state, layer.hidden))
        )
        by_w_ih, by_b_ih = (torch.cat([x[layer.size :], x[: layer.size]]) for x in (by_w_x, by_bias[: 3 * layer.size]))
        return by_w_ih, by_w_hh, by_b_ih, by_bias[layer.size :]


LAYERS: dict[str, type[AbstractLayer]] = {"lstm": LstmLayer, "gru": GruLayer}
