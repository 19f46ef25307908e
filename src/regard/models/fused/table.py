"""Which recurrent decoders have a fused pass, by the types of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import (
    AdditiveScore,
    BilinearScore,
    DotScore,
    FullWindow,
    Mechanism,
    Memory,
    ScaledDotScore,
    SoftmaxAlignment,
    WeightedSum,
)
from regard.layers import recurrence
from regard.layers.dropout import drop
from regard.layers.eligibility import DROPOUTS, drops, ineligible
from regard.layers.recurrent import CellState, RecurrentStack
from regard.models.fused.cells import LAYERS
from regard.models.fused.plan import Plan, Weights
from regard.models.fused.sweep import sweep
from regard.ops.choose import refuse_kernels

Asking = tuple[str, Tensor, tuple[Tensor | None, Tensor | None], Tensor | None]
"""additive or dot, the keys as compared, the query's projection, and v."""


def _additive(score: Any, keys: Tensor) -> Asking:
    return "additive", keys, (score.query_projection.weight, score.query_projection.bias), score.direction


def _dot(score: Any, keys: Tensor) -> Asking:
    return "dot", keys * score.scale, (None, None), None


def _bilinear(score: Any, keys: Tensor) -> Asking:
    return _dot(score.dot, keys)


def _scaled_dot(score: Any, keys: Tensor) -> Asking:
    return "dot", keys * score.scale, (score.query_projection.weight, score.query_projection.bias), None


SCORES: dict[type, Callable[[Any, Tensor], Asking]] = {
    AdditiveScore: _additive,
    BilinearScore: _bilinear,
    DotScore: _dot,
    ScaledDotScore: _scaled_dot,
}
"""Scores that the fused pass knows, and how it asks them; window, softmax and read are one each."""
INSIDE: dict[type, tuple[str, type]] = {
    AdditiveScore: ("query_projection", nn.Linear),
    BilinearScore: ("dot", DotScore),
    ScaledDotScore: ("query_projection", nn.Linear),
}
"""The module inside a score that the score calls in a step and the fused pass does not."""


def refuse(attention: Any, stack: RecurrentStack, readout: Any, embedded: Tensor | None = None) -> str | None:
    """Why there is no fused pass for a mechanism, cells and a readout, or for such inputs, or None."""
    if (reason := refuse_kernels(*(() if embedded is None else (embedded,)))) is not None:
        return reason
    if embedded is not None:
        if embedded.dtype not in (torch.float32, torch.float64) or torch.is_autocast_enabled(embedded.device.type):
            return "the fused pass computes in float32 and float64"
        if embedded.numel() == 0:
            return "there is nothing to compute"
    if type(attention) is not Mechanism:
        return f"the fused pass knows no {type(attention).__name__}"
    known = {"score": tuple(SCORES), "window": (FullWindow,), "alignment": (SoftmaxAlignment,), "read": (WeightedSum,)}
    for name, part in attention.parts.items():
        if type(part) not in known[name]:
            return f"the fused pass knows no {type(part).__name__}"
    if stack.cell not in LAYERS:
        return f"the fused pass knows no {stack.cell} cells"
    if (reason := _ineligible(attention, stack, readout)) is not None:
        return reason
    return "the readout has no bias" if readout.bias is None else None


def _ineligible(attention: Any, stack: RecurrentStack, readout: Any) -> str | None:
    """Why one of the modules that the fused pass does not call has to be called, or None."""
    score = attention.score
    asked: list[tuple[Any, str, tuple[type, ...]]] = [
        (attention, "attention", ()),
        *((part, f"attention.{name}", ()) for name, part in attention.parts.items()),
        (stack, "stack", (RecurrentStack,)),
        (stack.dropout, "stack.dropout", DROPOUTS),
        (readout, "readout", (nn.Linear,)),
    ]
    if type(score) in INSIDE:
        name, kind = INSIDE[type(score)]
        asked.append((getattr(score, name), f"attention.score.{name}", (kind,)))
    for module, name, kinds in asked:
        if (reason := ineligible(module, name, *kinds)) is not None:
            return reason
    for index, layer in enumerate(stack.layers):
        if (reason := recurrence.unreadable(layer, f"stack.layers.{index}")) is not None:
            return reason
    return None


def run(
    attention: Any,
    stack: RecurrentStack,
    readout: Any,
    embedded: Tensor,
    memory: Memory,
    first: CellState,
    *,
    attends_first: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs, cells (B, T, D), contexts (B, T, V) and alignments (B, H, T, S) of embedded inputs (B, T, E)."""
    score = attention.score
    energies, keys, query, v = SCORES[type(score)](score, memory.score)
    plan = Plan(
        stack.cell,
        stack.num_layers,
        stack.residual,
        attends_first,
        energies,
        score.num_heads,
        float(attention.alignment.sharpening),
    )
    layers = tuple(
        (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0) for layer in stack.layers
    )
    masks: list[Tensor] = []
    if drops(stack.dropout):
        ones = embedded.new_ones(*embedded.shape[:2], stack.size)
        masks = [drop(stack.dropout, ones, layer=index).transpose(0, 1) for index in range(stack.num_layers - 1)]
    weights = Weights(layers, query, v, (readout.weight, readout.bias))
    return sweep(plan, embedded, (keys, memory.read, memory.mask), first, masks, weights)
