"""Steps of cells in a loop (`ops.over_steps`): each is a product and a kernel; gradients of weights are made after all.

The equations are in `ops.cells.reference`.

An LSTM's W = [W_ih W_hh] multiplies [x_t; h_{t-1}]. A GRU's x and s are two products, as r multiplies s_n; the gates of
x are ordered n, r, z and those of s r, z, n, so that both gradients are slices of one tensor with n, r, z, s_n.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard.ops import over_steps, second_order
from regard.ops.cells.reference import gru_update, lstm_update
from regard.ops.choose import steps_for
from regard.ops.eligibility import refuse_autocast, refuse_types
from regard.ops.linear.shared import PackedProduct
from regard.ops.precision import without_autocast

State = tuple[Tensor, ...]


def step(cell: str, x: Tensor, state: State, weights: Sequence[Tensor]) -> State | None:
    """The new state of an LSTM's or a GRU's cell; None where this is no step of a loop that takes it.

    Args:
        cell: lstm or gru.
        x: (R, F).
        state: (h, c) or (h,), each (R, D).
        weights: w_ih, w_hh, b_ih, b_hh, in torch's layout.
    """
    if cell not in _CELLS or (loop := over_steps.current(x, *weights)) is None:
        return None
    kind, function = _CELLS[cell]
    shared = loop.shared(kind, *weights)
    if not shared.takes or x.dtype != shared.dtype or state[0].dtype != x.dtype:
        return None
    after: Any = over_steps.apply(function, shared, x, *state, *shared.handles)
    return after


class SharedCell(over_steps.Shared):
    """The weights of a cell.

    Args:
        weights: w_ih, w_hh, b_ih, b_hh.
    """

    def __init__(self, *weights: Tensor) -> None:
        super().__init__(weights, partial(self.gradients, weights[1].shape[1]))
        self.takes = not weights[0].is_meta and (refuse_types(*weights) or refuse_autocast(weights[0])) is None
        self.kernels: Any = steps_for("cells", weights[0].device.type)
        matrices, self.biases = self.prepare(*(weight.detach() for weight in weights))
        self.products = [PackedProduct(matrix, as_bytes=over_steps.stores_bytes()) for matrix in matrices]
        self.back = [PackedProduct(matrix.t()) for matrix in matrices] if torch.is_grad_enabled() else []
        self.dtype = weights[0].dtype

    @staticmethod
    def prepare(*weights: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """The matrices that are multiplied by, and the biases."""
        raise NotImplementedError

    @staticmethod
    def gradients(size: int, kept: Sequence[Sequence[Tensor]]) -> Sequence[Tensor]:
        """Of the weights."""
        raise NotImplementedError


class SharedLstm(SharedCell):
    """Of an LSTM."""

    @staticmethod
    def prepare(*weights: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """W, and the sum of both biases."""
        w_ih, w_hh, b_ih, b_hh = weights
        return [torch.cat([w_ih, w_hh], 1)], [b_ih + b_hh]

    @staticmethod
    def gradients(size: int, kept: Sequence[Sequence[Tensor]]) -> Sequence[Tensor]:
        """grad_W = Σ_t grad_gatesᵀ [x_t; h_{t-1}]; both biases have the sum of grad_gates."""
        grad_gates, inputs = (torch.cat(parts) for parts in zip(*kept, strict=True))
        grad_w_ih, grad_w_hh = (grad_gates.t() @ inputs).tensor_split([-size], 1)
        grad_bias = grad_gates.sum(0)
        return grad_w_ih, grad_w_hh, grad_bias, grad_bias


class SharedGru(SharedCell):
    """Of a GRU."""

    @staticmethod
    def prepare(*weights: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """W_ih, its gates in the order n, r, z, and W_hh; the biases."""
        w_ih, w_hh, b_ih, b_hh = weights
        return [candidate_first(w_ih), w_hh], [candidate_first(b_ih), b_hh]

    @staticmethod
    def gradients(size: int, kept: Sequence[Sequence[Tensor]]) -> Sequence[Tensor]:
        """grad_W_ih = Σ_t grad_xᵀ x_t and grad_W_hh = Σ_t grad_sᵀ h_{t-1}."""
        gradients, inputs, hidden = (torch.cat(parts) for parts in zip(*kept, strict=True))
        grad_bias = gradients.sum(0)
        return (
            candidate_last(gradients[:, : 3 * size].t() @ inputs),
            gradients[:, size:].t() @ hidden,
            candidate_last(grad_bias[: 3 * size]),
            grad_bias[size:],
        )


class _Lstm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shared: SharedLstm, x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> Any:
        (product,), ctx.back = shared.products, shared.back
        inputs = torch.cat([x, h], 1)
        gates, last = product(inputs), c.contiguous()
        cells, tangents, hidden = torch.empty_like(last), torch.empty_like(last), torch.empty_like(last)
        shared.kernels.lstm(gates, shared.biases[0], last, cells, tangents, hidden)
        ctx.shared = shared.uses, shared.kernels
        ctx.save_for_backward(inputs, gates, tangents, x, h, c, *weights)
        return hidden, cells

    @staticmethod
    def backward(ctx: Any, grad_hidden: Tensor, grad_cells: Tensor) -> Any:
        inputs, gates, tangents, *plain = ctx.saved_tensors
        if torch.is_grad_enabled():
            grads = second_order.gradients(_plain_lstm, plain, ctx.needs_input_grad[1:], (grad_hidden, grad_cells))
            return None, *grads
        x, _, c = plain[:3]
        uses, kernels = ctx.shared
        grad_c, grad_gates = grad_cells.clone(memory_format=torch.contiguous_format), torch.empty_like(gates)
        kernels.lstm_backward(gates, c.contiguous(), tangents, grad_hidden.contiguous(), grad_c, grad_gates)
        uses.kept.append((grad_gates, inputs))
        with without_autocast(x.device.type):
            grad_x, grad_h = ctx.back[0](grad_gates).tensor_split([x.shape[1]], 1)
        return None, grad_x, grad_h, grad_c, *(None,) * 4


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shared: SharedGru, x: Tensor, h: Tensor, *weights: Tensor) -> Any:
        (of_input, of_state), ctx.back = shared.products, shared.back
        last = h.contiguous()
        gates, recurrent, hidden = of_input(x), of_state(last, shared.biases[1]), torch.empty_like(last)
        shared.kernels.gru(gates, shared.biases[0], recurrent, last, hidden)
        ctx.shared = shared.uses, shared.kernels
        ctx.save_for_backward(gates, recurrent, x, h, *weights)
        return (hidden,)

    @staticmethod
    def backward(ctx: Any, grad_hidden: Tensor) -> Any:
        gates, recurrent, *plain = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, *second_order.gradients(_plain_gru, plain, ctx.needs_input_grad[1:], (grad_hidden,))
        x, h = plain[:2]
        uses, kernels = ctx.shared
        size = h.shape[1]
        grad_h, grad_gates = grad_hidden.clone(memory_format=torch.contiguous_format), gates.new_empty(len(h), 4 * size)
        kernels.gru_backward(gates, recurrent, h.contiguous(), grad_h, grad_gates)
        uses.kept.append((grad_gates, x, h))
        to_input, to_state = ctx.back
        with without_autocast(x.device.type):
            grad_h.add_(to_state(grad_gates[:, size:]))
            return None, to_input(grad_gates[:, : 3 * size]), grad_h, *(None,) * 4


_CELLS: dict[str, tuple[type[SharedCell], Any]] = {"lstm": (SharedLstm, _Lstm), "gru": (SharedGru, _Gru)}


def _plain_lstm(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> Sequence[Tensor]:
    w_ih, w_hh, b_ih, b_hh = weights
    return lstm_update(linear(x, w_ih, b_ih), linear(h, w_hh, b_hh), c)


def _plain_gru(x: Tensor, h: Tensor, *weights: Tensor) -> Sequence[Tensor]:
    w_ih, w_hh, b_ih, b_hh = weights
    return (gru_update(linear(x, w_ih, b_ih), linear(h, w_hh, b_hh), h),)


def candidate_first(gates: Tensor) -> Tensor:
    """A GRU's weights or biases, ordered n, r, z instead of r, z, n along their first dimension."""
    return gates.roll(len(gates) // 3, 0)


def candidate_last(gates: Tensor) -> Tensor:
    """The other way round."""
    return gates.roll(-(len(gates) // 3), 0)
