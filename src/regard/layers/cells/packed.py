"""A recurrent layer over whole sequences without their padding, if that is faster than torch's own loop.

`run` is one node of autograd's graph, with the steps of `forward_layer` and `backward_layer`: the inputs of all steps
go through one product; a step is a product with the last state and one compiled loop over the rows that have the step.
After the backward steps the gradient of each weight is one product over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.layers.cells.cell import CELLS, Parameters, State
from regard.layers.packing import Packing
from regard.ops import onednn
from regard.ops.autograd import second_order_gradients
from regard.ops.eligibility import kernel_reason, numba_reason
from regard.ops.linear import PackedProduct, linear, outer

KERNELS = "regard.ops.kernels.cells_packed"
PACKED_CELLS = ("lstm", "gru")
"""Cells with compiled loops over packed rows."""
MIN_ROWS = 32
"""The least rows for which a step without gradients saves more than its calls cost."""
BLOCK_ELEMENTS = 1 << 18
"""The elements of gates that are computed at a time if they are not saved."""
ROUND = 16
"""The rows of a step's product are rounded up to a multiple of this, with unused rows: oneDNN compiles code for each
number of rows and caches only a few (`ops.onednn`)."""


@dataclass(frozen=True)
class LayerSpec:
    """The cell, the packing and the types of a layer.

    Args:
        num_first: tensors of the first state; 0 if it is zeros.
        bfloat16: whether products are in bfloat16.
    """

    cell: str
    packing: Packing
    num_first: int
    bfloat16: bool = False

    @property
    def num_tensors(self) -> int:
        """Tensors in a state."""
        return CELLS[self.cell].num_tensors

    def step_from_zeros(self, direction: int) -> int | None:
        """The step whose previous states are zeros and need no gradient; None with a first state."""
        return None if self.num_first else len(self.packing.counts) - 1 if direction else 0

    def rows_of_other_steps(self, direction: int) -> slice:
        """The packed rows of all steps but `step_from_zeros`."""
        offsets = self.packing.offsets
        if self.num_first or len(offsets) == 1:
            return slice(None)
        return slice(0, offsets[-2]) if direction else slice(offsets[1], None)

    def directions(self, flat: Sequence[Tensor]) -> list[Any]:
        """w_ih, w_hh, b_ih, b_hh of every direction."""
        return [flat[i : i + 4] for i in range(self.num_first, len(flat), 4)]

    def states(self, whole: Sequence[Tensor | None], columns: slice, like: Tensor) -> list[Tensor]:
        """A direction's columns of states (B, ·), with the rows in packed order; zeros for None and missing states."""
        parts = [
            like.new_zeros(self.packing.batch, columns.stop - columns.start)
            if part is None
            else part[:, columns].index_select(0, self.packing.sorted_indices)
            for part in (*whole, *(None,) * (self.num_tensors - len(whole)))
        ]
        return parts if self.cell == "lstm" else [parts[0], parts[0][:0]]


@dataclass(frozen=True)
class Tape:
    """The saved tensors of a direction, N rows each; the backward steps overwrite them.

    Args:
        gates: after their nonlinearities; finally their gradients.
        recurrent: of a GRU (N, 3·D): s_n; finally the gradients of s.
        hidden, cells: the state before the step; cells only of an LSTM.
    """

    gates: Tensor
    recurrent: Tensor
    hidden: Tensor
    cells: Tensor

    @classmethod
    def of(cls, cell: str, gates: Tensor, size: int, *, keeps: bool) -> Tape:
        """An empty tape with these gates; its other tensors have no rows without `keeps`."""
        rows = len(gates) if keeps else 0
        of_gru, of_lstm = (rows, 0) if cell == "gru" else (0, rows)
        shapes = (of_gru, 3 * size), (rows, size), (of_lstm, size)
        return cls(gates, *(gates.new_empty(shape) for shape in shapes))

    def arrays(self) -> list[Any]:
        """The arguments of kernels."""
        return [tensor.numpy() for tensor in (self.gates, self.recurrent, self.hidden, self.cells)]


def forward_layer(
    spec: LayerSpec, packed: Tensor, flat: Sequence[Tensor], tapes: list[Tape] | None = None
) -> list[Tensor]:
    """Outputs and final states; appends the tape of each direction to `tapes`."""
    packing, directions = spec.packing, spec.directions(flat)
    size = directions[0][1].shape[1]
    outputs = packing.room(packed, size * len(directions))
    final = [packed.new_empty(packing.batch, outputs.shape[2]) for _ in range(spec.num_tensors)]
    for direction, weights in enumerate(directions):
        columns = slice(direction * size, (direction + 1) * size)
        state = spec.states(flat[: spec.num_first], columns, packed)
        tape = _forward_direction(spec, packed, weights, state, outputs, direction, keeps=tapes is not None)
        if tapes is not None:
            tapes.append(tape)
        for whole, part in zip(final, state, strict=False):
            whole[:, columns].index_copy_(0, packing.sorted_indices, part)
    return [outputs, *final]


def _forward_direction(
    spec: LayerSpec,
    packed: Tensor,
    weights: Sequence[Tensor],
    state: list[Tensor],
    outputs: Tensor,
    direction: int,
    *,
    keeps: bool,
) -> Tape:
    """The steps of a direction, which overwrite `state` by the final one."""
    packing = spec.packing
    counts, offsets, steps = packing.counts, packing.offsets, len(packing.counts)
    step = import_module(KERNELS).STEPS[spec.cell]
    w_ih, w_hh, b_ih, b_hh = (weight.detach() for weight in weights)
    # an LSTM's gates are sums of x and s, so x has both biases; a GRU multiplies s_n by r before adding x_n
    input_bias, state_bias = (b_ih + b_hh, torch.zeros_like(b_hh)) if spec.cell == "lstm" else (b_ih, b_hh)
    product = PackedProduct(w_hh, bfloat16=spec.bfloat16)
    hidden, size = state[0], w_hh.shape[1]
    fixed = packing.sorted_indices.numpy(), outputs.numpy(), direction * size
    arrays = [state[1].numpy(), hidden.numpy()]
    step_from_zeros = spec.step_from_zeros(direction)
    # without a tape the gates of all steps need not exist at once: a block of steps stays in the cache
    length = steps if keeps else max(1, BLOCK_ELEMENTS // (len(w_hh) * max(counts, default=1)))
    order = range(0, max(steps, 1), max(length, 1))
    for begin in reversed(order) if direction else order:
        block = range(begin, min(begin + length, steps))
        low, high = offsets[begin], offsets[block.stop]
        # x (n, G) = packed (n, F) W_ihᵀ + b of the block's n rows in one product, which the steps overwrite by gates
        tape = Tape.of(spec.cell, linear(packed[low:high], w_ih, input_bias, bfloat16=spec.bfloat16), size, keeps=keeps)
        buffers = [*tape.arrays(), *arrays]
        for t in reversed(block) if direction else block:
            # s (count, G) = h_{t-1} W_hhᵀ + b of the first rows, which have this step; b for a state of zeros
            if t == step_from_zeros:
                recurrent = state_bias.repeat(counts[t], 1)
            else:
                recurrent = product(hidden[: _rounded(counts[t])], state_bias)
            step(t, offsets[t] - low, counts[t], *fixed, recurrent.numpy(), *buffers)
    return tape


def _rounded(count: int) -> int:
    """A number of rows, rounded up."""
    return -(-count // ROUND) * ROUND


def _backward_direction(
    spec: LayerSpec,
    weights: Sequence[Tensor],
    tape: Tape,
    grad_state: list[Tensor],
    grad_outputs: Tensor,
    direction: int,
) -> None:
    """Overwrites the tape by gradients, and `grad_state`, of the final state, by that of the first state."""
    packing = spec.packing
    counts, offsets, steps = packing.counts, packing.offsets, len(packing.counts)
    step = import_module(KERNELS).STEPS_BACKWARD[spec.cell]
    w_hh = weights[1].detach()
    product = PackedProduct(w_hh.t(), bfloat16=spec.bfloat16)
    grad_hidden, grad_recurrent = grad_state[0], tape.recurrent if spec.cell == "gru" else tape.gates
    fixed = packing.sorted_indices.numpy(), grad_outputs.numpy(), direction * w_hh.shape[1]
    buffers = [*tape.arrays(), grad_state[1].numpy(), grad_hidden.numpy()]
    through = grad_hidden[:0]
    for t in range(steps) if direction else range(steps - 1, -1, -1):
        count, offset = counts[t], offsets[t]
        # `through` (·, D) is the gradient of h_t from the step that read it. In the backward direction that step may
        # have more rows than this one, whose sequences begin there; the kernel does not receive these rows
        if len(through) > count:
            grad_hidden[count : len(through)] += through[count:]
        step(t, offset, count, *fixed, through.numpy(), *buffers)
        # the gradient of h_{t-1} is grad_s (count, G) W_hh; a state of zeros needs none
        if t != spec.step_from_zeros(direction):
            through = product(grad_recurrent[offset : offset + _rounded(count)])[:count]
    grad_hidden[: len(through)] += through


def backward_layer(
    spec: LayerSpec,
    packed: Tensor,
    flat: Sequence[Tensor],
    tapes: Sequence[Tape],
    grad_outputs: Tensor,
    grad_final: Sequence[Tensor | None],
    *,
    needs_packed: bool,
) -> tuple[Tensor | None, list[Tensor]]:
    """The gradients of the packed inputs, and of the first state and the weights; overwrites the tapes."""
    directions = spec.directions(flat)
    size = directions[0][1].shape[1]
    grad_packed: Tensor | None = None
    grad_first = [torch.empty_like(part) for part in flat[: spec.num_first]]
    grad_weights: list[Tensor] = []
    for direction, (weights, tape) in enumerate(zip(directions, tapes, strict=True)):
        columns = slice(direction * size, (direction + 1) * size)
        grad_state = spec.states(grad_final, columns, packed)
        _backward_direction(spec, weights, tape, grad_state, grad_outputs, direction)
        for whole, part in zip(grad_first, grad_state, strict=False):
            whole[:, columns].index_copy_(0, spec.packing.sorted_indices, part)
        grad_weights += _weight_gradients(spec, tape, packed, direction)
        # the gradient of x is grad_gates (N, G) W_ih, summed over directions
        if needs_packed:
            part = linear(tape.gates, weights[0].detach().t(), bfloat16=spec.bfloat16)
            grad_packed = part if grad_packed is None else grad_packed.add_(part)
    return grad_packed, [*grad_first, *grad_weights]


def _weight_gradients(spec: LayerSpec, tape: Tape, packed: Tensor, direction: int) -> list[Tensor]:
    """The gradients of w_ih, w_hh, b_ih and b_hh, each by one product over all N rows."""
    # grad_W_ih = grad_gatesᵀ x and grad_W_hh = grad_sᵀ h_{t-1}, the latter without the rows whose state was zeros
    rows = spec.rows_of_other_steps(direction)
    grad_w_ih, grad_bias = outer(tape.gates, packed, bfloat16=spec.bfloat16), tape.gates.sum(0)
    if spec.cell == "lstm":
        return [grad_w_ih, outer(tape.gates[rows], tape.hidden[rows], bfloat16=spec.bfloat16), grad_bias, grad_bias]
    # r and z are sums of x and s, with the same gradient in both; n is not, as r multiplies s_n
    size = tape.hidden.shape[1]
    grad_b_hh = torch.cat([grad_bias[: 2 * size], tape.recurrent[:, 2 * size :].sum(0)])
    return [grad_w_ih, outer(tape.recurrent[rows], tape.hidden[rows], bfloat16=spec.bfloat16), grad_bias, grad_b_hh]


def unsupported_reason(cell: str, directions: Sequence[Parameters], x: Tensor) -> str | None:
    """Why a layer over inputs (B, S, F) cannot have compiled loops, or None."""
    weights = [weight for direction in directions for weight in direction]
    if (reason := kernel_reason(x, *weights)) is not None:
        return reason
    if cell not in PACKED_CELLS:
        return f"the compiled loops do not support {cell}"
    if torch.is_autocast_enabled("cpu") and not _is_bfloat16(x):
        return "autocast is to another type than bfloat16"
    kind = torch.float32 if _is_bfloat16(x) else x.dtype
    if x.device.type != "cpu" or kind not in (torch.float32, torch.float64):
        return "the compiled loops compute float32 and float64 on the CPU"
    if any(weight.dtype != kind for weight in weights):
        return "inputs and weights are of several types"
    return numba_reason(KERNELS)


def is_fast_in_torch(cell: str, directions: Sequence[Parameters], x: Tensor, packing: Packing) -> bool:
    """Whether torch's own loop is at least as fast, as measured on two cores with AVX-512 for layers of 256."""
    if not packing.is_full or _is_bfloat16(x):
        return False
    if cell == "lstm" and x.dtype == torch.float32 and onednn.unsupported_reason(packs=True) is None:
        return True
    trains = torch.is_grad_enabled() and any(
        tensor.requires_grad for tensor in (x, *(weight for direction in directions for weight in direction))
    )
    return not trains and len(x) < MIN_ROWS


def run(
    cell: str, directions: Sequence[Parameters], x: Tensor, first: State | None, packing: Packing
) -> tuple[Tensor, State]:
    """Outputs (B, S, D or 2·D), zero at padding, and the final state, directions concatenated.

    Args:
        directions: the weights of each direction.
        first: the first state, directions concatenated; zeros if None.
    """
    bfloat16 = _is_bfloat16(x)
    spec = LayerSpec(cell, packing, len(first or ()), bfloat16)
    activations = [tensor.float() if bfloat16 else tensor for tensor in (x, *(first or ()))]
    tensors = [*activations, *(weight for direction in directions for weight in direction)]
    with torch.autocast("cpu", enabled=False):
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            outputs, *final = _Layer.apply(spec, *tensors)  # type: ignore[no-untyped-call]
        else:
            outputs, *final = forward_layer(spec, packing.pack(tensors[0]), tensors[1:])
    return outputs, tuple(final)


def _is_bfloat16(x: Any) -> bool:
    """Whether autocast casts products to bfloat16; states and saved tensors are float32."""
    autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return autocast and x.dtype in (torch.float32, torch.bfloat16)


class _Layer(torch.autograd.Function):
    """A backward pass overwrites the tapes, a second one computes new ones; second derivatives use torch's loop."""

    @staticmethod
    def forward(ctx: Any, spec: LayerSpec, x: Tensor, *flat: Tensor) -> Any:
        ctx.spec, ctx.tapes = spec, []
        ctx.save_for_backward(x, *flat)
        return tuple(forward_layer(spec, spec.packing.pack(x), flat, ctx.tapes))

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor, *grad_final: Tensor) -> Any:
        spec, (x, *flat) = ctx.spec, ctx.saved_tensors
        needs_x, *needs = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            layer, grads = partial(reference, spec), (grad_outputs, *grad_final)
            return None, *second_order_gradients(layer, (x, *flat), (needs_x, *needs), grads)
        packed = spec.packing.pack(x)
        if not ctx.tapes:
            forward_layer(spec, packed, flat, ctx.tapes)
        tapes = [ctx.tapes.pop(0) for _ in spec.directions(flat)]
        grad_packed, grad_flat = backward_layer(
            spec, packed, flat, tapes, grad_outputs.contiguous(), grad_final, needs_packed=needs_x
        )
        return None, None if grad_packed is None else spec.packing.unpack(grad_packed), *grad_flat


def reference(spec: LayerSpec, x: Tensor, *flat: Tensor) -> tuple[Tensor, ...]:
    """Outputs and final states by torch's loop over packed rows."""
    packing, directions = spec.packing, spec.directions(flat)
    size = directions[0][1].shape[1]
    width = size * len(directions)
    zeros = x.new_zeros(packing.batch, width)
    first = flat[: spec.num_first] or (zeros,) * spec.num_tensors
    alive = packing.sorted_indices[: max(packing.counts, default=0)]
    if len(alive) == 0:
        zero = sum(tensor[:0].sum() for tensor in (x, *flat))  # keeps everything in the graph
        return x.new_zeros(packing.batch, packing.source, width) + zero, *(part + zero for part in first)
    starts = [part[alive].unflatten(1, (len(directions), size)).transpose(0, 1).contiguous() for part in first]
    loop: Any = torch.lstm if spec.cell == "lstm" else torch.gru
    hx = starts if spec.cell == "lstm" else starts[0]
    options = flat[spec.num_first :], True, 1, 0.0, False, len(directions) == 2
    outputs, *final = loop(packing.pack(x), torch.tensor(packing.counts), hx, *options)
    ends = (part.transpose(0, 1).flatten(1) for part in final)
    whole = outputs.new_zeros(packing.batch * packing.source, width).index_copy(0, packing.index, outputs)
    return (
        whole.unflatten(0, (packing.batch, packing.source)),
        *(part.index_copy(0, alive, end) for part, end in zip(first, ends, strict=True)),
    )
