"""Steps of recurrent cells, in a loop that collects gradients (`ops.over_steps`), and their elementwise parts.

    LSTM:  (i, f, g, o) = W [x_t; h_{t-1}] + b
           c_t = σ(f) c_{t-1} + σ(i) tanh(g),  h_t = σ(o) tanh(c_t)
    GRU:   x = W_ih x_t + b_ih,  s = W_hh h_{t-1} + b_hh,  r = σ(x_r + s_r),  z = σ(x_z + s_z)
           n = tanh(x_n + r s_n),  h_t = (1 - z) n + z h_{t-1}

In a loop an LSTM's W = [W_ih W_hh] multiplies [x_t; h_{t-1}]. A GRU's x and s are two products, as r multiplies s_n;
the gates of x are ordered n, r, z and those of s r, z, n, so that r and z are adjacent in both, and both gradients are
slices of one tensor of n, r, z, s_n. An LSTM's gates have torch's order, i, f, g, o.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard.ops import half, over_steps
from regard.ops.autograd import second_order_gradients, without_autocast
from regard.ops.choose import steps_for
from regard.ops.eligibility import autocast_reason, type_reason
from regard.ops.linear import PackedProduct

State = tuple[Tensor, ...]


def step(cell: str, x: Tensor, state: State, weights: Sequence[Tensor]) -> State | None:
    """The new state of an LSTM's or a GRU's cell, if it is a step of a loop on the CPU; otherwise None.

    On a GPU torch's cell is one kernel after its products, forward and backward, where this would be ten.

    Args:
        cell: lstm or gru.
        x: (R, F).
        state: (h, c) or (h,), each (R, D).
        weights: w_ih, w_hh, b_ih, b_hh, in torch's layout.
    """
    if cell not in _CELLS or not x.is_cpu or (loop := over_steps.current(x, *weights)) is None:
        return None
    kind, function = _CELLS[cell]
    read, state_type = weights, weights[0].dtype
    if (copies := half.current()) is not None and (read := copies.of(*weights))[0] is not weights[0]:
        state = tuple(part.to(state_type) for part in state)  # the first one may be a half output of a product
    shared = loop.shared(kind, *read, state_type=state_type)
    if not shared.takes or x.dtype not in (shared.dtype, shared.state_type) or state[0].dtype != shared.state_type:
        return None
    after: Any = over_steps.apply(function, shared, x, *state, *shared.handles)
    return after


class SharedCell(over_steps.Shared):
    """The weights of a cell.

    Args:
        weights: w_ih, w_hh, b_ih, b_hh.
        state_type: of states and gates; the weights of products may be half copies (`ops.half`).
    """

    def __init__(self, *weights: Tensor, state_type: torch.dtype) -> None:
        super().__init__(weights, partial(self.gradients, weights[1].shape[1]))
        self.dtype, self.state_type = weights[0].dtype, state_type
        reason = None if self.dtype != state_type else type_reason(*weights) or autocast_reason(weights[0])
        self.takes = reason is None
        self.kernels: Any = steps_for("cells", weights[0].device.type)
        matrices, biases = self.prepare(*(weight.detach() for weight in weights))
        self.biases = [bias.to(state_type) for bias in biases]
        self.products = [PackedProduct(matrix, as_bytes=over_steps.stores_bytes()) for matrix in matrices]
        self.back = [PackedProduct(matrix.t()) for matrix in matrices] if torch.is_grad_enabled() else []

    @staticmethod
    def prepare(*weights: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """The matrices of the products, and the biases."""
        raise NotImplementedError

    @staticmethod
    def gradients(size: int, factors: Sequence[Sequence[Tensor]]) -> Sequence[Tensor]:
        """The gradients of the weights."""
        raise NotImplementedError


class SharedLstm(SharedCell):
    """The weights of an LSTM."""

    @staticmethod
    def prepare(*weights: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """W, and the sum of both biases."""
        w_ih, w_hh, b_ih, b_hh = weights
        return [torch.cat([w_ih, w_hh], 1)], [b_ih + b_hh]

    @staticmethod
    def gradients(size: int, factors: Sequence[Sequence[Tensor]]) -> Sequence[Tensor]:
        """grad_W = Σ_t grad_gatesᵀ [x_t; h_{t-1}]; both biases have Σ_t grad_gates."""
        grad_gates, inputs = (torch.cat(parts) for parts in zip(*factors, strict=True))
        grad_w_ih, grad_w_hh = (grad_gates.t() @ inputs).tensor_split([-size], 1)
        grad_bias = grad_gates.sum(0)
        return grad_w_ih, grad_w_hh, grad_bias, grad_bias


class SharedGru(SharedCell):
    """The weights of a GRU."""

    @staticmethod
    def prepare(*weights: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """W_ih with gates in the order n, r, z, and W_hh; the biases."""
        w_ih, w_hh, b_ih, b_hh = weights
        return [candidate_first(w_ih), w_hh], [candidate_first(b_ih), b_hh]

    @staticmethod
    def gradients(size: int, factors: Sequence[Sequence[Tensor]]) -> Sequence[Tensor]:
        """grad_W_ih = Σ_t grad_xᵀ x_t and grad_W_hh = Σ_t grad_sᵀ h_{t-1}."""
        gradients, inputs, hidden = (torch.cat(parts) for parts in zip(*factors, strict=True))
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
        inputs = torch.cat([x.to(shared.dtype), h.to(shared.dtype)], 1)
        gates, last = product(inputs).to(c.dtype), c.contiguous()
        cells, tangents, hidden = torch.empty_like(last), torch.empty_like(last), torch.empty_like(last)
        shared.kernels.lstm(gates, shared.biases[0], last, cells, tangents, hidden)
        ctx.shared = shared.uses, shared.kernels
        ctx.save_for_backward(inputs, gates, tangents, x, h, c, *weights)
        return hidden, cells

    @staticmethod
    def backward(ctx: Any, grad_hidden: Tensor, grad_cells: Tensor) -> Any:
        inputs, gates, tangents, *plain = ctx.saved_tensors
        if torch.is_grad_enabled():
            grads = second_order_gradients(_plain_lstm, plain, ctx.needs_input_grad[1:], (grad_hidden, grad_cells))
            return None, *grads
        x, _, c = plain[:3]
        uses, kernels = ctx.shared
        grad_c, grad_gates = grad_cells.clone(memory_format=torch.contiguous_format), torch.empty_like(gates)
        kernels.lstm_backward(gates, c.contiguous(), tangents, grad_hidden.contiguous(), grad_c, grad_gates)
        grad_gates = grad_gates.to(inputs.dtype)
        uses.factors.append((grad_gates, inputs))
        with without_autocast(x.device.type):
            grad_x, grad_h = ctx.back[0](grad_gates).tensor_split([x.shape[1]], 1)
        return None, grad_x.to(x.dtype), grad_h.to(c.dtype), grad_c, *(None,) * 4


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shared: SharedGru, x: Tensor, h: Tensor, *weights: Tensor) -> Any:
        (of_input, of_state), ctx.back = shared.products, shared.back
        last, kind = h.contiguous(), shared.dtype
        inputs, states = x.to(kind), last.to(kind)
        gates = of_input(inputs).to(h.dtype)
        recurrent, hidden = of_state(states, shared.biases[1].to(kind)).to(h.dtype), torch.empty_like(last)
        shared.kernels.gru(gates, shared.biases[0], recurrent, last, hidden)
        ctx.shared = shared.uses, shared.kernels
        ctx.save_for_backward(gates, recurrent, inputs, states, x, h, *weights)
        return (hidden,)

    @staticmethod
    def backward(ctx: Any, grad_hidden: Tensor) -> Any:
        gates, recurrent, inputs, states, *plain = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, *second_order_gradients(_plain_gru, plain, ctx.needs_input_grad[1:], (grad_hidden,))
        x, h = plain[:2]
        uses, kernels = ctx.shared
        size = h.shape[1]
        grad_h, grad_gates = grad_hidden.clone(memory_format=torch.contiguous_format), gates.new_empty(len(h), 4 * size)
        kernels.gru_backward(gates, recurrent, h.contiguous(), grad_h, grad_gates)
        grad_gates = grad_gates.to(inputs.dtype)
        uses.factors.append((grad_gates, inputs, states))
        to_input, to_state = ctx.back
        with without_autocast(x.device.type):
            grad_h.add_(to_state(grad_gates[:, size:]))
            return None, to_input(grad_gates[:, : 3 * size]).to(x.dtype), grad_h, *(None,) * 4


_CELLS: dict[str, tuple[type[SharedCell], Any]] = {"lstm": (SharedLstm, _Lstm), "gru": (SharedGru, _Gru)}


def _plain_lstm(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> Sequence[Tensor]:
    return lstm_update(*_plain_products(x, h, weights), c)


def _plain_gru(x: Tensor, h: Tensor, *weights: Tensor) -> Sequence[Tensor]:
    return (gru_update(*_plain_products(x, h, weights), h),)


def _plain_products(x: Tensor, h: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    w_ih, w_hh, b_ih, b_hh = weights
    kind = w_ih.dtype
    return linear(x.to(kind), w_ih, b_ih).to(h.dtype), linear(h.to(kind), w_hh, b_hh).to(h.dtype)


def candidate_first(gates: Tensor) -> Tensor:
    """A GRU's weights or biases, ordered n, r, z instead of r, z, n along their first dimension."""
    return gates.roll(len(gates) // 3, 0)


def candidate_last(gates: Tensor) -> Tensor:
    """The inverse of `candidate_first`."""
    return gates.roll(-(len(gates) // 3), 0)


def lstm(gates: Tensor, bias: Tensor, last_cells: Tensor, cells: Tensor, tangents: Tensor, hidden: Tensor) -> None:
    """An LSTM's step.

    Args:
        gates: (B, 4·D), before their nonlinearities; replaced by the gates after them.
        bias: (4·D), added to the gates first.
        last_cells: (B, D), c_{t-1}.
        cells, tangents, hidden: (B, D), outputs: c_t, tanh(c_t) and h_t.
    """
    size = cells.shape[1]
    i, f, g, o = gates.add_(bias).split(size, 1)
    gates[:, : 2 * size].sigmoid_()
    g.tanh_()
    o.sigmoid_()
    torch.addcmul(torch.mul(f, last_cells, out=cells), i, g, out=cells)
    torch.mul(o, torch.tanh(cells, out=tangents), out=hidden)


def lstm_backward(
    gates: Tensor, last_cells: Tensor, tangents: Tensor, grad_hidden: Tensor, grad_cells: Tensor, grad_gates: Tensor
) -> None:
    """An LSTM's step backward.

    Args:
        gates: (B, 4·D), after their nonlinearities.
        grad_hidden: (B, D), of h_t.
        grad_cells: (B, D), of c_t; replaced by that of c_{t-1}.
        grad_gates: (B, 4·D), output: the gradient of the gates before their nonlinearities.
    """
    size = last_cells.shape[1]
    i, f, g, o = gates.split(size, 1)
    grad_i, grad_f, grad_g, grad_o = grad_gates.split(size, 1)
    grad_cells.addcmul_(grad_hidden * o, 1 - tangents * tangents)
    torch.mul(grad_cells * g, i * (1 - i), out=grad_i)
    torch.mul(grad_cells * last_cells, f * (1 - f), out=grad_f)
    torch.mul(grad_cells * i, 1 - g * g, out=grad_g)
    torch.mul(grad_hidden * tangents, o * (1 - o), out=grad_o)
    grad_cells.mul_(f)


def gru(gates: Tensor, bias: Tensor, recurrent: Tensor, last: Tensor, hidden: Tensor) -> None:
    """A GRU's step.

    Args:
        gates: (B, 3·D), x in the order n, r, z; replaced by n, r and z.
        bias: (3·D), added to x first.
        recurrent: s (B, 3·D), in the order r, z, n.
        last: (B, D), h_{t-1}.
        hidden: (B, D), output: h_t.
    """
    size = last.shape[1]
    n, r, z = gates.add_(bias).split(size, 1)
    gates[:, size:].add_(recurrent[:, : 2 * size]).sigmoid_()
    n.addcmul_(r, recurrent[:, 2 * size :]).tanh_()
    torch.lerp(n, last, z, out=hidden)


def gru_backward(gates: Tensor, recurrent: Tensor, last: Tensor, grad_hidden: Tensor, grad_gates: Tensor) -> None:
    """A GRU's step backward.

    Args:
        gates: (B, 3·D), n, r and z.
        grad_hidden: (B, D), of h_t; replaced by the part of that of h_{t-1} through z.
        grad_gates: (B, 4·D), output: the gradients of x_n, of r and z before σ, and of s_n. Those of x are its first
            3·D columns, those of s its last 3·D.
    """
    size = last.shape[1]
    n, r, z = gates.split(size, 1)
    grad_n, grad_r, grad_z, grad_s = grad_gates.split(size, 1)
    torch.mul(grad_hidden * (1 - z), 1 - n * n, out=grad_n)
    torch.mul(grad_n * recurrent[:, 2 * size :], r * (1 - r), out=grad_r)
    torch.mul(grad_hidden * (last - n), z * (1 - z), out=grad_z)
    torch.mul(grad_n, r, out=grad_s)
    grad_hidden.mul_(z)


def lstm_update(x: Tensor, s: Tensor, last_cells: Tensor) -> tuple[Tensor, Tensor]:
    """h_t and c_t (B, D) from the gates (B, 4·D) of input and state, for autograd and torch.func."""
    i, f, g, o = (x + s).chunk(4, -1)
    cells = f.sigmoid() * last_cells + i.sigmoid() * g.tanh()
    return o.sigmoid() * cells.tanh(), cells


def gru_update(x: Tensor, s: Tensor, last: Tensor) -> Tensor:
    """h_t (B, D) from the gates r, z, n (B, 3·D) of input and state, for autograd and torch.func."""
    (x_r, x_z, x_n), (s_r, s_z, s_n) = x.chunk(3, -1), s.chunk(3, -1)
    z, n = (x_z + s_z).sigmoid(), (x_n + (x_r + s_r).sigmoid() * s_n).tanh()
    return (1 - z) * n + z * last
