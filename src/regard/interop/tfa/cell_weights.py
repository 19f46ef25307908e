"""TensorFlow's recurrent cells: their arrays, and the weights of our layers.

| cell | arrays | ours |
|---|---|---|
| `lstm` (Keras) | kernel (F, 4D), recurrent_kernel (D, 4D), bias (4D); gates i, f, c, o | `lstm`: i, f, g, o |
| `gru` (Keras) | kernel (F, 3D), recurrent_kernel (D, 3D), bias (2, 3D); gates z, r, h | `gru`: r, z, n |
| `gru_reset_before` (Keras) | with reset_after=False; one bias (3D) | `gru_reset_before`: r, z, n |
| `lstm_v1` (TensorFlow 1) | kernel (F + D, 4D), bias (4D); gates i, j, f, o | `lstm`: forget_bias is added to f |
| `gru_v1` (TensorFlow 1) | gates and candidate: kernel (F + D, 2D and D), bias; r, u, c | `gru_reset_before`: u is z |

Kernels multiply rows from the right, so all are transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from regard.interop.arrays import NamedArrays

Weights = dict[str, Tensor]
"""weight_ih, weight_hh, bias_ih and bias_hh, or for gru_reset_before one bias."""
Sizes = tuple[int, int]
"""F and D: of the inputs and of the state."""


def keras_lstm(arrays: NamedArrays, role: str, sizes: Sizes, _: float) -> Weights:
    """A Keras LSTM; its gates are in torch's order."""
    kernel, recurrent = _kernels(arrays, role, sizes, 4)
    bias = arrays.take(f"{role}.bias", (4 * sizes[1],), "4·D", optional=True)
    return _torch(kernel.t(), recurrent.t(), bias)


def keras_gru(arrays: NamedArrays, role: str, sizes: Sizes, _: float) -> Weights:
    """A Keras GRU with reset_after: its first bias is of the inputs, its second of the state."""
    kernel, recurrent = (_z_r_h(part) for part in _kernels(arrays, role, sizes, 3))
    bias = arrays.take(f"{role}.bias", (2, 3 * sizes[1]), "2, 3·D", optional=True)
    biases = (None, None) if bias is None else _z_r_h(bias).unbind()
    return _torch(kernel.t(), recurrent.t(), *biases)


def keras_gru_reset_before(arrays: NamedArrays, role: str, sizes: Sizes, _: float) -> Weights:
    """A Keras GRU with reset_after=False."""
    kernel, recurrent = (_z_r_h(part) for part in _kernels(arrays, role, sizes, 3))
    bias = arrays.take(f"{role}.bias", (3 * sizes[1],), "3·D", optional=True)
    bias = kernel.new_zeros(3 * sizes[1]) if bias is None else _z_r_h(bias)
    return {"weight_ih": kernel.t(), "weight_hh": recurrent.t(), "bias": bias}


def first_lstm(arrays: NamedArrays, role: str, sizes: Sizes, forget_bias: float) -> Weights:
    """`LSTMCell` of TensorFlow 1: inputs and state share a kernel, and the forget gate has a bias beside its own."""
    kernel, recurrent = _joint(arrays, f"{role}.kernel", sizes, 4)
    bias = arrays.take(f"{role}.bias", (4 * sizes[1],), "4·D")
    kernel, recurrent, bias = (_i_j_f_o(part) for part in (kernel, recurrent, bias))
    bias[sizes[1] : 2 * sizes[1]] += forget_bias
    return _torch(kernel.t(), recurrent.t(), bias)


def first_gru(arrays: NamedArrays, role: str, sizes: Sizes, _: float) -> Weights:
    """`GRUCell` of TensorFlow 1: h' = u h + (1 - u) c with c = tanh(W x + U (r h) + b)."""
    gates = _joint(arrays, f"{role}.gates.kernel", sizes, 2)
    candidate = _joint(arrays, f"{role}.candidate.kernel", sizes, 1)
    biases = [
        arrays.take(f"{role}.gates.bias", (2 * sizes[1],), "2·D"),
        arrays.take(f"{role}.candidate.bias", (sizes[1],), "D"),
    ]
    kernel, recurrent = (torch.cat(parts, 1) for parts in zip(gates, candidate, strict=True))
    return {"weight_ih": kernel.t(), "weight_hh": recurrent.t(), "bias": torch.cat(biases)}


CELLS: Mapping[str, tuple[str, Callable[[NamedArrays, str, Sizes, float], Weights]]] = {
    "lstm": ("lstm", keras_lstm),
    "gru": ("gru", keras_gru),
    "gru_reset_before": ("gru_reset_before", keras_gru_reset_before),
    "lstm_v1": ("lstm", first_lstm),
    "gru_v1": ("gru_reset_before", first_gru),
}
"""Our cell, and how its weights are read, by the names that facts give cells."""


def size_of(arrays: NamedArrays, role: str, cell: str) -> int:
    """D, the size of a cell's state, of the array that tells it.

    Raises:
        DataError: for an array that is not a matrix.
    """
    if cell == "gru_v1":
        return _columns(arrays, f"{role}.candidate.kernel", 1)
    if cell == "lstm_v1":
        return _columns(arrays, f"{role}.kernel", 4)
    array = arrays.look(f"{role}.recurrent_kernel")
    if array.dim() != 2:
        raise arrays.wrong(f"{role}.recurrent_kernel", "D, gates·D")
    return len(array)


def _columns(arrays: NamedArrays, role: str, gates: int) -> int:
    array = arrays.look(role)
    if array.dim() != 2 or array.shape[1] % gates:
        raise arrays.wrong(role, f"F + D, {gates}·D")
    return array.shape[1] // gates


def _kernels(arrays: NamedArrays, role: str, sizes: Sizes, gates: int) -> tuple[Tensor, Tensor]:
    """(F, gates·D) and (D, gates·D)."""
    width, size = sizes
    kernel = arrays.take(f"{role}.kernel", (width, gates * size), f"F, {gates}·D")
    return kernel, arrays.take(f"{role}.recurrent_kernel", (size, gates * size), f"D, {gates}·D")


def _joint(arrays: NamedArrays, role: str, sizes: Sizes, gates: int) -> tuple[Tensor, Tensor]:
    """(F, gates·D) and (D, gates·D) of one kernel, in which the inputs come first."""
    width, size = sizes
    kernel = arrays.take(role, (width + size, gates * size), f"F + D, {gates}·D")
    return kernel[:width], kernel[width:]


def _torch(weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor | None, bias_hh: Tensor | None = None) -> Weights:
    zeros = weight_ih.new_zeros(len(weight_ih))
    biases = {"bias_ih": zeros if bias_ih is None else bias_ih, "bias_hh": zeros if bias_hh is None else bias_hh}
    return {"weight_ih": weight_ih, "weight_hh": weight_hh, **biases}


def _z_r_h(gates: Tensor) -> Tensor:
    """r, z, n of z, r, h on the last axis."""
    update, reset, candidate = gates.chunk(3, -1)
    return torch.cat([reset, update, candidate], -1)


def _i_j_f_o(gates: Tensor) -> Tensor:
    """i, f, g, o of i, j, f, o on the last axis."""
    i, j, f, o = gates.chunk(4, -1)
    return torch.cat([i, f, j, o], -1)
