"""A recurrent layer over whole sequences as one node of the graph, where that is faster than torch's own loop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.layers import steps
from regard.layers.eligibility import ineligible
from regard.layers.packing import Packing
from regard.layers.steps import KERNELS, Plan
from regard.ops.choose import refuse_kernels, refuse_numba
from regard.ops.linear import onednn

CELLS: dict[type, str] = {nn.LSTM: "lstm", nn.GRU: "gru"}
ENOUGH = 32
"""Rows from which on a step without gradients saves more than its calls cost."""


def refuse(layer: nn.Module, x: Any = None) -> str | None:
    """Why the steps of a layer of torch's cannot be compiled loops, for such inputs, or None."""
    if (reason := refuse_kernels(*(() if x is None else (x,)))) is not None:
        return reason
    if type(layer) not in CELLS:
        return f"the compiled loops know no {type(layer).__name__}"
    if (reason := unreadable(layer)) is not None:
        return reason
    if x is not None:
        if torch.is_autocast_enabled("cpu") and not _is_narrow(x):
            return "autocast is to another type than bfloat16"
        kind = torch.float32 if _is_narrow(x) else x.dtype
        if x.device.type != "cpu" or kind not in (torch.float32, torch.float64):
            return "the compiled loops compute float32 and float64 on the CPU"
        if any(one.dtype != kind for one in layer.parameters()):
            return "inputs and weights are of several types"
    return refuse_numba(KERNELS)


def unreadable(layer: Any, name: str = "the layer") -> str | None:
    """Why a layer has to be called, or None where `weight_ih_l0` and its like say all that it does."""
    if (reason := ineligible(layer, name, nn.LSTM, nn.GRU, nn.RNN)) is not None:
        return reason
    if layer.num_layers != 1 or not layer.bias or layer.proj_size or layer.mode == "RNN_RELU":
        return f"{name} is not one layer of LSTM, GRU or tanh cells with biases"
    return None


def slower(layer: nn.Module, x: Any, packing: Packing) -> str | None:
    """Why torch's own loop is no slower, as measured on two cores with AVX-512 for layers of 256, or None."""
    if not packing.is_full or _is_narrow(x):
        return None
    if type(layer) is nn.LSTM and x.dtype == torch.float32 and onednn.refuse() is None:
        return "without padding the LSTM of oneDNN is faster"
    asked = torch.is_grad_enabled() and any(one.requires_grad for one in (x, *layer.parameters()))
    return None if asked or len(x) >= ENOUGH else "without padding and gradients, few rows are as fast in torch's loop"


def run(layer: Any, packing: Packing, x: Tensor, first: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Outputs (B, S, D or 2·D), zero where there is padding, and the final state, directions side by side.

    Args:
        layer: an `nn.LSTM` or `nn.GRU` of one layer.
        x: (B, S, F).
        first: the first state, directions side by side; zeros when None.
    """
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    suffixes = ["", "_reverse"] if layer.bidirectional else [""]
    weights = [getattr(layer, f"{kind}_l0{suffix}") for suffix in suffixes for kind in kinds]
    narrow = _is_narrow(x)
    plan = Plan(CELLS[type(layer)], packing, len(first or ()), narrow)
    tensors = (*(given.float() if narrow else given for given in (x, *(first or ()))), *weights)
    with torch.autocast("cpu", enabled=False):
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            outputs, *final = _Layer.apply(plan, *tensors)  # type: ignore[no-untyped-call]
        else:
            outputs, *final = steps.forward(plan, packing.pack(tensors[0]), tensors[1:])
    return outputs, tuple(final)


def _is_narrow(x: Any) -> bool:
    """Whether autocast wants products of bfloat16; states and what is kept of them are float32."""
    autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return autocast and x.dtype in (torch.float32, torch.bfloat16)


class _Layer(torch.autograd.Function):
    """A backward pass uses the tapes up, a second one makes new ones; second derivatives are those of torch's loop."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, x: Tensor, *flat: Tensor) -> Any:
        ctx.plan, ctx.tapes = plan, []
        ctx.save_for_backward(x, *flat)
        return tuple(steps.forward(plan, plan.packing.pack(x), flat, ctx.tapes))

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor, *grad_final: Tensor) -> Any:
        plan, (x, *flat) = ctx.plan, ctx.saved_tensors
        needs_x, *needs = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            wanted = [tensor for tensor, needed in zip((x, *flat), (needs_x, *needs), strict=True) if needed]
            found = iter(
                torch.autograd.grad(reference(plan, x, *flat), wanted, (grad_outputs, *grad_final), create_graph=True)
            )
            return None, *(next(found) if needed else None for needed in (needs_x, *needs))
        packed = plan.packing.pack(x)
        if not ctx.tapes:
            steps.forward(plan, packed, flat, ctx.tapes)
        tapes = [ctx.tapes.pop(0) for _ in plan.directions(flat)]
        grad_packed, grad_flat = steps.backward(
            plan, packed, flat, tapes, grad_outputs.contiguous(), grad_final, needs_packed=needs_x
        )
        return None, None if grad_packed is None else plan.packing.unpack(grad_packed), *grad_flat


def reference(plan: Plan, x: Tensor, *flat: Tensor) -> tuple[Tensor, ...]:
    """Outputs and final states by torch's loop over packed rows."""
    packing, directions = plan.packing, plan.directions(flat)
    size = directions[0][1].shape[1]
    width = size * len(directions)
    zeros = x.new_zeros(packing.batch, width)
    first = flat[: plan.num_first] or (zeros,) * plan.num_tensors
    alive = packing.places[: max(packing.counts, default=0)]
    if len(alive) == 0:
        nothing = sum(tensor[:0].sum() for tensor in (x, *flat))
        return x.new_zeros(packing.batch, packing.source, width) + nothing, *(part + nothing for part in first)
    given = [part[alive].unflatten(1, (len(directions), size)).transpose(0, 1).contiguous() for part in first]
    loop: Any = torch.lstm if plan.cell == "lstm" else torch.gru
    hx = given if plan.cell == "lstm" else given[0]
    options = flat[plan.num_first :], True, 1, 0.0, False, len(directions) == 2
    outputs, *final = loop(packing.pack(x), torch.tensor(packing.counts), hx, *options)
    ends = (part.transpose(0, 1).flatten(1) for part in final)
    whole = outputs.new_zeros(packing.batch * packing.source, width).index_copy(0, packing.index, outputs)
    return (
        whole.unflatten(0, (packing.batch, packing.source)),
        *(part.index_copy(0, alive, end) for part, end in zip(first, ends, strict=True)),
    )
