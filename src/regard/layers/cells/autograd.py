"""A recurrent layer over whole sequences as one node of the graph, where that is faster than torch's own loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.layers.cells import packed as steps
from regard.layers.cells.cell import Parameters, State
from regard.layers.cells.packed import KERNELS, LayerSpec
from regard.layers.packing import Packing
from regard.ops import onednn
from regard.ops.autograd import second_order_gradients
from regard.ops.eligibility import refuse_kernels, refuse_numba

PACKED_CELLS = ("lstm", "gru")
"""Cells with compiled loops over packed rows."""
MIN_ROWS = 32
"""Rows from which on a step without gradients saves more than its calls cost."""


def refuse(cell: str, directions: Sequence[Parameters], x: Tensor) -> str | None:
    """Why the steps of a layer over inputs (B, S, F) are not compiled loops, or None."""
    weights = [weight for direction in directions for weight in direction]
    if (reason := refuse_kernels(x, *weights)) is not None:
        return reason
    if cell not in PACKED_CELLS:
        return f"the compiled loops know no {cell}"
    if torch.is_autocast_enabled("cpu") and not _is_bfloat16(x):
        return "autocast is to another type than bfloat16"
    kind = torch.float32 if _is_bfloat16(x) else x.dtype
    if x.device.type != "cpu" or kind not in (torch.float32, torch.float64):
        return "the compiled loops compute float32 and float64 on the CPU"
    if any(weight.dtype != kind for weight in weights):
        return "inputs and weights are of several types"
    return refuse_numba(KERNELS)


def is_fast_in_torch(cell: str, directions: Sequence[Parameters], x: Tensor, packing: Packing) -> bool:
    """Whether torch's own loop is no slower, as measured on two cores with AVX-512 for layers of 256."""
    if not packing.is_full or _is_bfloat16(x):
        return False
    if cell == "lstm" and x.dtype == torch.float32 and onednn.refuse(packs=True) is None:
        return True
    trains = torch.is_grad_enabled() and any(
        tensor.requires_grad for tensor in (x, *(weight for direction in directions for weight in direction))
    )
    return not trains and len(x) < MIN_ROWS


def run(
    cell: str, directions: Sequence[Parameters], x: Tensor, first: State | None, packing: Packing
) -> tuple[Tensor, State]:
    """Outputs (B, S, D or 2·D), zero where there is padding, and the final state, directions side by side.

    Args:
        directions: the weights of each.
        x: (B, S, F).
        first: the first state, directions side by side; zeros when None.
    """
    bfloat16 = _is_bfloat16(x)
    spec = LayerSpec(cell, packing, len(first or ()), bfloat16)
    activations = [tensor.float() if bfloat16 else tensor for tensor in (x, *(first or ()))]
    tensors = [*activations, *(weight for direction in directions for weight in direction)]
    with torch.autocast("cpu", enabled=False):
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            outputs, *final = _Layer.apply(spec, *tensors)  # type: ignore[no-untyped-call]
        else:
            outputs, *final = steps.forward(spec, packing.pack(tensors[0]), tensors[1:])
    return outputs, tuple(final)


def _is_bfloat16(x: Any) -> bool:
    """Whether autocast wants products of bfloat16; states and what is kept of them are float32."""
    autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return autocast and x.dtype in (torch.float32, torch.bfloat16)


class _Layer(torch.autograd.Function):
    """A backward pass uses the tapes up, a second one makes new ones; second derivatives are those of torch's loop."""

    @staticmethod
    def forward(ctx: Any, spec: LayerSpec, x: Tensor, *flat: Tensor) -> Any:
        ctx.spec, ctx.tapes = spec, []
        ctx.save_for_backward(x, *flat)
        return tuple(steps.forward(spec, spec.packing.pack(x), flat, ctx.tapes))

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor, *grad_final: Tensor) -> Any:
        spec, (x, *flat) = ctx.spec, ctx.saved_tensors
        needs_x, *needs = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            layer, grads = partial(reference, spec), (grad_outputs, *grad_final)
            return None, *second_order_gradients(layer, (x, *flat), (needs_x, *needs), grads)
        packed = spec.packing.pack(x)
        if not ctx.tapes:
            steps.forward(spec, packed, flat, ctx.tapes)
        tapes = [ctx.tapes.pop(0) for _ in spec.directions(flat)]
        grad_packed, grad_flat = steps.backward(
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
