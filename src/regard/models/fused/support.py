"""Which recurrent decoders have a fused pass, by what their parts declare of themselves."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.attention import (
    AbstractAttention,
    AbstractScore,
    AdditiveScore,
    Comparison,
    GatedSum,
    Mechanism,
    Memory,
    State,
    WeightedSum,
    declarations,
)
from regard.attention.peers import RectifiedScore
from regard.layers.cells.buffered import LAYERS
from regard.layers.cells.cell import ineligible_layer, parameters
from regard.layers.dropout import drop
from regard.layers.eligibility import DROPOUTS, drops, ineligible
from regard.layers.recurrent import CellState, RecurrentStack
from regard.models.fused import located
from regard.models.fused.autograd import all_steps
from regard.models.fused.plan import Plan, Way, Weights
from regard.models.readout import DeepReadout
from regard.ops.eligibility import StandIn, refuse_autocast, refuse_empty, refuse_kernels, refuse_numba, refuse_types


def refuse(
    attention: AbstractAttention | None,
    stack: RecurrentStack,
    readout: nn.Module | None,
    embedded: Tensor | StandIn | None = None,
    way: Way | None = None,
) -> str | None:
    """Why there is no fused pass for a mechanism, cells and a readout, or for such inputs, or None.

    Where attention comes first, nothing waits for the readout, so that it may be any, and a gate may be there. Where
    the context is fed back, nothing waits for the readout either.
    """
    way = Way() if way is None else way
    attends_first = way.attends_first
    if (reason := refuse_kernels(*(() if embedded is None else (embedded,)))) is not None:
        return reason
    if embedded is not None and (
        reason := refuse_types(embedded) or refuse_autocast(embedded) or refuse_empty(embedded)
    ):
        return reason
    if type(attention) is not Mechanism:
        return f"the fused pass knows no {type(attention).__name__}"
    score = attention.score
    is_located = type(score) in located.LOCATED
    comparison = compared(score)
    reads = (GatedSum,) if attends_first else ()
    # what the pass computes instead of the mechanism reports its weights to recorders
    reason = declarations.ineligible(attention.parts, comparison, finish=False, reads=reads, reports=True)
    if reason is not None:
        return reason
    if is_located and (reason := refuse_numba("regard.ops.location.numba", *(() if embedded is None else (embedded,)))):
        return reason
    if stack.cell not in LAYERS:
        return f"the fused pass knows no {stack.cell} cells"
    assert comparison is not None
    if (reason := _ineligible(attention, comparison, stack, None if way.fed == "context" else readout)) is not None:
        return reason
    if attends_first or way.fed == "context" or isinstance(readout, nn.Linear):
        return None
    return "what is fed back has to be known in the pass, and it does not know this readout"


def _ineligible(
    attention: Mechanism, comparison: Comparison, stack: RecurrentStack, readout: nn.Module | None
) -> str | None:
    """Why one of the modules that the fused pass does not call has to be called, or None."""
    if comparison.rotate is not None:
        return f"the fused pass does not rotate queries, as {type(attention.score).__name__} does"
    uncalled: list[tuple[nn.Module | None, str, tuple[type, ...]]] = [
        (attention, "attention", ()),
        (stack, "stack", (RecurrentStack,)),
        (stack.dropout, "stack.dropout", DROPOUTS),
    ]
    if readout is not None and type(readout) is not DeepReadout:
        uncalled.append((readout, "readout", (nn.Linear,)))
    uncalled += [(module, name, (kind,)) for module, name, kind in located.uncalled(attention.score)]
    if type(attention.read) is GatedSum:
        uncalled += [
            (attention.read.sum, "attention.read.sum", (WeightedSum,)),
            (attention.read.gate, "the gate in attention.read", (nn.Linear,)),
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


def compared(score: Any) -> Comparison | None:
    """What queries and keys are compared by, without what the score knows of earlier weights; None if it is unknown."""
    content = located.content_of(score)
    comparison: Comparison | None = content.comparison() if content is score or type(content) is AdditiveScore else None
    return comparison


def compare(
    score: AbstractScore, keys: Tensor
) -> tuple[str, Tensor, tuple[Tensor | None, Tensor | None], Tensor | None]:
    """dot, additive or rectified, the keys as they are compared, the query's projection (W, b), and v."""
    comparison = compared(score)
    assert comparison is not None
    projection: Any = comparison.projection
    query = (None, None) if projection is None else (projection.weight, projection.bias)
    if comparison.kind == "dot":
        keys = keys * comparison.scale
    kind = "rectified" if type(score) is RectifiedScore else comparison.kind
    return kind, keys, query, comparison.v


def gate_of(read: Any) -> tuple[Tensor | None, Tensor | None]:
    """W and b of a read's gate, or None."""
    return (read.gate.weight, read.gate.bias) if type(read) is GatedSum else (None, None)


def run(
    attention: Any,
    stack: RecurrentStack,
    readout: Any,
    embedded: Tensor,
    memory: Memory,
    first: CellState,
    way: Way,
    *,
    state: State,
) -> tuple[Tensor | None, Tensor, Tensor, Tensor]:
    """Outputs, cells (B, T, D), contexts (B, T, V) and alignments (B, H, T, S) of embedded inputs (B, T, E).

    Outputs are None where the pass leaves the readout to the caller.

    Args:
        memory, first: attention's memory and the first state of the cells.
        way: what is fed back, and how.
        state: attention's first state.
    """
    score, gate = attention.score, gate_of(attention.read)
    energies, keys, query, v = compare(score, located.keys_of(score, memory.score))
    reads_out = isinstance(readout, nn.Linear) and way.fed != "context"
    plan = Plan(
        stack.cell,
        stack.num_layers,
        stack.residual,
        way.attends_first,
        energies,
        score.num_heads,
        attention.alignment.softmax_factor,
        located.describe(score, memory.score),
        0 if gate[0] is None else len(gate[0]),
        reads_out,
        way.layer == "tanh",
    )
    layers = tuple(weights for layer in stack.layers for weights in parameters(layer))
    masks: list[Tensor] = []
    if drops(stack.dropout):
        ones = embedded.new_ones(*embedded.shape[:2], stack.size)
        masks = [drop(stack.dropout, ones, layer=index).transpose(0, 1) for index in range(stack.num_layers - 1)]
    of_readout = (readout.weight, readout.bias) if reads_out else (None, None)
    weights = Weights(layers, query, v, of_readout, located.filters_of(score), gate)
    given = keys, memory.read, memory.mask, *located.start_of(score, state.score)
    outputs, *others = all_steps(plan, embedded, given, first, masks, weights)
    cells, contexts, alignments = others
    return outputs if reads_out else None, cells, contexts, alignments
