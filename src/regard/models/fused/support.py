"""Which recurrent decoders have a fused pass, by what their parts declare of themselves."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.attention import AbstractAttention, AbstractScore, Comparison, Mechanism, Memory, declarations
from regard.layers.cells.buffered import LAYERS
from regard.layers.cells.cell import ineligible_layer, parameters
from regard.layers.dropout import drop
from regard.layers.eligibility import DROPOUTS, drops, ineligible
from regard.layers.recurrent import CellState, RecurrentStack
from regard.models.fused.autograd import all_steps
from regard.models.fused.plan import Plan, Weights
from regard.ops.eligibility import StandIn, refuse_autocast, refuse_empty, refuse_kernels, refuse_types


def refuse(
    attention: AbstractAttention | None,
    stack: RecurrentStack,
    readout: nn.Linear | None,
    embedded: Tensor | StandIn | None = None,
) -> str | None:
    """Why there is no fused pass for a mechanism, cells and a readout, or for such inputs, or None."""
    if (reason := refuse_kernels(*(() if embedded is None else (embedded,)))) is not None:
        return reason
    if embedded is not None and (
        reason := refuse_types(embedded) or refuse_autocast(embedded) or refuse_empty(embedded)
    ):
        return reason
    if type(attention) is not Mechanism:
        return f"the fused pass knows no {type(attention).__name__}"
    comparison = attention.score.comparison()
    # what the pass computes instead of the mechanism reports its weights to recorders
    if (reason := declarations.ineligible(attention.parts, comparison, finish=False, reports=True)) is not None:
        return reason
    if stack.cell not in LAYERS:
        return f"the fused pass knows no {stack.cell} cells"
    assert comparison is not None
    if (reason := _ineligible(attention, comparison, stack, readout)) is not None:
        return reason
    return "the readout has no bias" if readout is None or readout.bias is None else None


def _ineligible(
    attention: Mechanism, comparison: Comparison, stack: RecurrentStack, readout: nn.Linear | None
) -> str | None:
    """Why one of the modules that the fused pass does not call has to be called, or None."""
    if comparison.rotate is not None:
        return f"the fused pass does not rotate queries, as {type(attention.score).__name__} does"
    uncalled: list[tuple[nn.Module | None, str, tuple[type, ...]]] = [
        (attention, "attention", ()),
        (stack, "stack", (RecurrentStack,)),
        (stack.dropout, "stack.dropout", DROPOUTS),
        (readout, "readout", (nn.Linear,)),
    ]
    if comparison.projection is not None:
        uncalled.append((comparison.projection, "the query's projection in attention.score", (nn.Linear,)))
    for module, name, kinds in uncalled:
        if (reason := ineligible(module, name, *kinds, reports=True)) is not None:
            return reason
    for index, layer in enumerate(stack.layers):
        if (reason := ineligible_layer(layer, f"stack.layers.{index}")) is not None:
            return reason
    return None


def compare(
    score: AbstractScore, keys: Tensor
) -> tuple[str, Tensor, tuple[Tensor | None, Tensor | None], Tensor | None]:
    """dot or additive, the keys as they are compared, the query's projection (W, b), and v."""
    comparison = score.comparison()
    assert comparison is not None
    projection: Any = comparison.projection
    query = (None, None) if projection is None else (projection.weight, projection.bias)
    if comparison.kind == "dot":
        keys = keys * comparison.scale
    return comparison.kind, keys, query, comparison.v


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
    energies, keys, query, v = compare(score, memory.score)
    plan = Plan(
        stack.cell,
        stack.num_layers,
        stack.residual,
        attends_first,
        energies,
        score.num_heads,
        attention.alignment.softmax_factor,
    )
    layers = tuple(weights for layer in stack.layers for weights in parameters(layer))
    masks: list[Tensor] = []
    if drops(stack.dropout):
        ones = embedded.new_ones(*embedded.shape[:2], stack.size)
        masks = [drop(stack.dropout, ones, layer=index).transpose(0, 1) for index in range(stack.num_layers - 1)]
    weights = Weights(layers, query, v, (readout.weight, readout.bias))
    return all_steps(plan, embedded, (keys, memory.read, memory.mask), first, masks, weights)
