"""Layers of recurrent cells over all steps, forward and backward, without autograd; the equations are in `ops.cells`.

A layer's input and last state stand side by side in one buffer, `inputs` (T + 1, B, F + D), whose row t is
[x_t; h_{t-1}]. The steps fill it: h_t goes into row t + 1. So a step is one product with W = [W_ih W_hh], and the
gradient of W is one product over all steps, grad_gatesᵀ inputs, instead of T small ones. (Inputs that are known before
the first step could be multiplied by W_ih at once. It is no faster, since the products have to be kept and added.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from regard.layers.cells.cell import Parameters, State, candidate_first, candidate_last
from regard.ops.choose import steps_for
from regard.ops.linear import Product


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
        self.inputs = self.w_hh.new_empty(steps + 1, self.batch, self.w_ih.shape[1] + self.size)
        self.fed, self.hidden = self.inputs[:, :, : -self.size], self.inputs[:, :, -self.size :]
        self.hidden[0] = state[0]
        self.kernels: Any = steps_for("cells", self.w_hh.device.type)

    @abstractmethod
    def forward(self, t: int) -> None:
        """From x_t, `fed[t]` (B, F), to h_t, `hidden[t + 1]` (B, D)."""

    @abstractmethod
    def reverse(self) -> AbstractLayerBackward:
        """The steps backward."""


class AbstractLayerBackward(ABC):
    """A layer backward, from its last step to its first.

    Args:
        layer: after its last step.
    """

    def __init__(self, layer: AbstractLayer) -> None:
        self.grad_gates = layer.inputs.new_empty(layer.steps, layer.batch, 4 * layer.size)
        self.grad_last = torch.zeros_like(layer.hidden[0])

    @abstractmethod
    def backward(self, t: int, grad_hidden: Tensor) -> Tensor:
        """The gradient of x_t (B, F), from that of h_t (B, D) without `grad_last`, which the later steps gave h_t.

        `grad_last` is that of h_{t-1} afterwards.
        """

    @abstractmethod
    def grad_first(self) -> State:
        """The gradient of the first state."""

    @abstractmethod
    def gradients(self) -> Parameters:
        """The gradients of the weights."""


class LstmLayer(AbstractLayer):
    """c_t = σ(f) c_{t-1} + σ(i) tanh(g),  h_t = σ(o) tanh(c_t)."""

    def __init__(self, weights: Parameters, state: State, steps: int) -> None:
        super().__init__(weights, state, steps)
        self.weight = torch.cat([self.w_ih, self.w_hh], 1)
        self.product = Product(self.weight, self.batch)
        self.bias = (self.b_ih + self.b_hh)[None]
        self.gates: list[Tensor] = []
        self.cells = self.inputs.new_empty(steps + 1, self.batch, self.size)
        self.tangents = self.inputs.new_empty(steps, self.batch, self.size)
        self.cells[0] = state[1]

    def forward(self, t: int) -> None:
        self.gates.append(self.product(self.inputs[t]))
        self.kernels.lstm(t, self.gates[t], self.bias, self.cells, self.tangents, self.inputs)

    def reverse(self) -> AbstractLayerBackward:
        return LstmBackward(self)


class LstmBackward(AbstractLayerBackward):
    """Of an `LstmLayer`."""

    def __init__(self, layer: LstmLayer) -> None:
        super().__init__(layer)
        self.layer = layer
        self.product = Product(layer.weight.t(), layer.batch)
        self.grad_cells = torch.zeros_like(self.grad_last)

    def backward(self, t: int, grad_hidden: Tensor) -> Tensor:
        layer = self.layer
        # h_t was read by what follows in the step, and by step t + 1
        grad_hidden = grad_hidden + self.grad_last
        layer.kernels.lstm_backward(
            t, layer.gates[t], layer.cells, layer.tangents, grad_hidden, self.grad_cells, self.grad_gates
        )
        # grad_gates (B, 4·D) W, the gradients of x_t (B, F) and of h_{t-1} (B, D) side by side
        grad_fed, grad_last = self.product(self.grad_gates[t]).tensor_split([-layer.size], 1)
        self.grad_last.copy_(grad_last)
        return grad_fed

    def grad_first(self) -> State:
        return self.grad_last, self.grad_cells

    def gradients(self) -> Parameters:
        # grad_W (4·D, F + D) = grad_gatesᵀ [x; h_{t-1}] over all T·B rows; both biases have the sum of grad_gates
        flat = self.grad_gates.flatten(0, 1)
        grad_weight, grad_bias = flat.t() @ self.layer.inputs[:-1].flatten(0, 1), flat.sum(0)
        grad_w_ih, grad_w_hh = grad_weight.tensor_split([-self.layer.size], 1)
        return grad_w_ih, grad_w_hh, grad_bias, grad_bias


class GruLayer(AbstractLayer):
    """n = tanh(x_n + r s_n),  h_t = (1 - z) n + z h_{t-1};  x = W_x x_t + b_x,  s = W_hh h_{t-1} + b_hh.

    As r multiplies s_n, x and s are two products. The gates of x are ordered n, r, z and those of s r, z, n, so that
    both gradients are slices of one buffer with n, r, z, s_n: W_x is W_ih in that order.
    """

    def __init__(self, weights: Parameters, state: State, steps: int) -> None:
        super().__init__(weights, state, steps)
        self.w_x, b_x = candidate_first(self.w_ih), candidate_first(self.b_ih)
        self.of_fed = Product(self.w_x, self.batch)
        self.of_state = Product(self.w_hh, self.batch)
        self.bias = b_x[None]
        self.gates: list[Tensor] = []
        self.recurrent: list[Tensor] = []

    def forward(self, t: int) -> None:
        self.recurrent.append(self.of_state(self.hidden[t], self.b_hh))
        self.gates.append(self.of_fed(self.fed[t]))
        self.kernels.gru(t, self.gates[t], self.bias, self.recurrent[t], self.inputs)

    def reverse(self) -> AbstractLayerBackward:
        return GruBackward(self)


class GruBackward(AbstractLayerBackward):
    """Of a `GruLayer`."""

    def __init__(self, layer: GruLayer) -> None:
        super().__init__(layer)
        self.layer = layer
        self.to_fed = Product(layer.w_x.t(), layer.batch)
        self.to_state = Product(layer.w_hh.t(), layer.batch)

    def backward(self, t: int, grad_hidden: Tensor) -> Tensor:
        layer, grad_gates = self.layer, self.grad_gates[t]
        # the kernel leaves h_{t-1}'s gradient through z in the place of h_t's; what comes through s is added after it
        self.grad_last.add_(grad_hidden)
        layer.kernels.gru_backward(t, layer.recurrent[t], layer.gates[t], layer.inputs, self.grad_last, self.grad_gates)
        # grad_s (B, 3·D) W_hh and grad_x (B, 3·D) W_x, from the last and the first columns of n, r, z, s_n
        self.grad_last.add_(self.to_state(grad_gates[:, layer.size :]))
        return self.to_fed(grad_gates[:, : 3 * layer.size])

    def grad_first(self) -> State:
        return (self.grad_last,)

    def gradients(self) -> Parameters:
        # grad_W_x = grad_xᵀ x and grad_W_hh = grad_sᵀ h_{t-1} over all T·B rows
        layer, flat = self.layer, self.grad_gates.flatten(0, 1)
        grad_x, grad_s, grad_bias = flat[:, : 3 * layer.size], flat[:, layer.size :], flat.sum(0)
        grad_w_x, grad_w_hh = (
            gates.t() @ met[:-1].flatten(0, 1) for gates, met in ((grad_x, layer.fed), (grad_s, layer.hidden))
        )
        grad_b_x, grad_b_hh = grad_bias[: 3 * layer.size], grad_bias[layer.size :]
        return candidate_last(grad_w_x), grad_w_hh, candidate_last(grad_b_x), grad_b_hh


LAYERS: dict[str, type[AbstractLayer]] = {"lstm": LstmLayer, "gru": GruLayer}
