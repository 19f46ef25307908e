"""The sublayers of a Transformer's layers: each one operation where its modules may be read, else module by module.

`regard.ops.sublayer` has the equations. What an operation does not know (a further option of a layer, another
activation, norm, score or read, hooks, a request for weights) is refused with the reason, which `explain` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from regard import ops
from regard.attention import declarations
from regard.attention.contract import Memory, Tree
from regard.attention.heads import split
from regard.attention.mechanism import Mechanism
from regard.attention.reads import ProjectedSum
from regard.attention.scores import RotaryDotScore, ScaledDotScore
from regard.attention.sizes import check_grid
from regard.attention.verbs import AbstractAttention, prepare_memory
from regard.layers import FeedForward, GatedFeedForward, Residual, recorders
from regard.layers.dropout import drop_mask
from regard.layers.eligibility import DROPOUTS, ineligible
from regard.layers.positions import position_angles
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import EXAMPLE_ROWS, StandIn
from regard.ops.sublayer import refuse
from regard.shapes import Bool, Float, keep_mask

Sublayers = tuple[Implementation, ...]
"""A table of the paths of a sublayer."""
FUSED = "one operation"
NOTHING: Mapping[str, Any] = MappingProxyType({})
OPTIONS: dict[type, frozenset[str]] = {
    FeedForward: frozenset({"inner", "outer", "dropout", "activation"}),
    GatedFeedForward: frozenset({"gate", "inner", "outer", "dropout"}),
    Residual: frozenset({"first", "norm", "dropout"}),
    Mechanism: frozenset({"sources", "score", "window", "alignment", "read", "narrow"}),
    ScaledDotScore: frozenset(
        {"query_size", "memory_size", "head_size", "num_heads", "num_key_value_heads", "sources", "scale"}
        | {"query_projection", "key_projection"}
    ),
    RotaryDotScore: frozenset(
        {"query_size", "memory_size", "content", "rotary_size", "num_heads", "layout", "base", "sources"}
    ),
    ProjectedSum: frozenset(
        {"memory_size", "num_heads", "num_key_value_heads", "sources", "context_size"}
        | {"value_projection", "output_projection"}
    ),
}
"""What the modules consist of that operations read; whatever else one has is an option that they do not know."""


def attend_to_self(
    residual: Residual,
    attention: AbstractAttention,
    x: Float[Tensor, "B T D"],
    mask: Bool[Tensor, "B T"] | None = None,
    *,
    generator: torch.Generator | None = None,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"] | None]:
    """Self-attention in its residual connection, and what it read if its module was called."""
    path = choose(SELF_ATTENTION, residual, attention, x)
    output, inner = path.function(residual, attention, x, mask, generator)
    return output, inner


def attend_to_source(
    residual: Residual,
    attention: AbstractAttention,
    x: Float[Tensor, "B T D"],
    memory: Tree,
    *,
    inputs: Callable[[], Tensor],
    alignment: bool = False,
    generator: torch.Generator | None = None,
    further: Mapping[str, Any] = NOTHING,
) -> tuple[Float[Tensor, "B T D"], Tree]:
    """Cross-attention in its residual connection, and the alignment if asked for.

    Args:
        inputs: makes the decoder's inputs (B, T, D), which some recipes read.
        further: arguments that only this attention takes (`Refined`).
    """
    path = choose(CROSS_ATTENTION, residual, attention, x, memory, alignment=alignment)
    output, weights = path.function(residual, attention, x, memory, inputs, alignment, generator, further)
    return output, weights


def feed(residual: Residual, feed_forward: nn.Module, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
    """Feed-forward in its residual connection."""
    return choose(FEED_FORWARD, residual, feed_forward, x).function(residual, feed_forward, x)


def memory_of(
    attention: AbstractAttention, values: Float[Tensor, "B S M"], mask: Bool[Tensor, "B S"] | None, grid: Tree = None
) -> Tree:
    """A cross-attention's memory of a source; the grid as in `Encoded`."""
    return choose(MEMORY, attention, values).function(attention, values, mask, grid)


def explain(table: Sublayers, *inputs: Any) -> str | None:
    """Why a sublayer is not one operation, or None.

    Args:
        inputs: its modules and what it is given, or a `StandIn` of that.
    """
    return None if choose(table, *inputs).name == FUSED else table[0].refuse(*inputs)


def explain_sublayers(
    sublayers: Iterable[tuple[str, Sublayers, tuple[Any, ...]]], like: Tensor, size: int, device: str
) -> str:
    """Whether each sublayer is one operation, or the first that is not and why.

    Args:
        sublayers: name, table and modules of each.
        like: has the type of the inputs.
        size: D.
        device: a type of device.
    """
    example = StandIn(torch.device(device), (2, EXAMPLE_ROWS, size), like.dtype)
    for name, table, modules in sublayers:
        inputs = (*modules, example, None) if table is CROSS_ATTENTION else (*modules, example)
        if (reason := explain(table, *inputs)) is not None:
            return f"{name} runs module by module: {reason}"
    return "each sublayer is one operation"


def _attend_to_self(
    residual: Residual, mechanism: Any, x: Tensor, mask: Tensor | None, generator: torch.Generator | None
) -> tuple[Tensor, None]:
    score, read = mechanism.score, mechanism.read
    content = _content(score)
    query, key = content.query_projection, content.key_projection
    value, joined = read.value_projection, read.output_projection
    output = ops.self_attention_sublayer(
        x,
        residual.norm.weight,
        residual.norm.bias,
        query.weight,
        key.weight,
        value.weight,
        joined.weight,
        query.bias,
        key.bias,
        value.bias,
        joined.bias,
        drop_mask(residual.dropout, x),
        _support(mask),
        _turn(score, x),
        num_heads=score.num_heads,
        num_key_value_heads=content.num_key_value_heads,
        scale=content.scale * mechanism.alignment.softmax_factor,
        causal=mechanism.window.extent_of(x.shape[1]) == "past",
        **_norm_options(residual),
    )
    if recorders.wanted(mechanism):
        _report(mechanism, residual, x, mask=mask)
    return output, None


def _attend_to_source(
    residual: Residual,
    mechanism: Any,
    x: Tensor,
    memory: Memory,
    inputs: Callable[[], Tensor],
    alignment: bool,
    generator: torch.Generator | None,
    further: Mapping[str, Any],
) -> tuple[Tensor, None]:
    score, projection = mechanism.score, mechanism.read.output_projection
    content = _content(score)
    output = ops.cross_attention_sublayer(
        x,
        residual.norm.weight,
        residual.norm.bias,
        content.query_projection.weight,
        memory.score,
        memory.read,
        projection.weight,
        content.query_projection.bias,
        projection.bias,
        drop_mask(residual.dropout, x),
        _support(memory.mask),
        _turn(score, x),
        num_heads=score.num_heads,
        scale=content.scale * mechanism.alignment.softmax_factor,
        **_norm_options(residual),
    )
    if recorders.wanted(mechanism):
        _report(mechanism, residual, x, memory)
    return output, None


def _report(
    mechanism: Mechanism, residual: Residual, x: Tensor, memory: Memory | None = None, *, mask: Tensor | None = None
) -> None:
    """Gives recorders the weights of a sublayer, which keeps none: they are computed beside it.

    Args:
        memory: of cross-attention; prepared from the inputs if None.
    """
    with torch.no_grad(), recorders.silent():
        inner = residual.enter(x)
        memory = mechanism.prepare(inner, mask=mask) if memory is None else memory
        weights = mechanism(inner, memory, alignment=True)[0].alignment
    recorders.report(mechanism, weights)


def _feed(residual: Residual, feed_forward: FeedForward | GatedFeedForward, x: Tensor) -> Tensor:
    gate, activation = None, "swiglu"
    if isinstance(feed_forward, FeedForward):
        activation = feed_forward.activation
    else:
        gate = feed_forward.gate
    inner, outer, dropout = feed_forward.inner, feed_forward.outer, feed_forward.dropout
    # masks are drawn in the order in which the modules would be called
    inner_mask = drop_mask(dropout, x.new_empty(()).expand(*x.shape[:2], inner.out_features))
    return ops.feed_forward_sublayer(
        x,
        residual.norm.weight,
        residual.norm.bias,
        inner.weight,
        inner.bias,
        outer.weight,
        outer.bias,
        None if gate is None else gate.weight,
        None if gate is None else gate.bias,
        drop_mask(residual.dropout, x),
        inner_mask,
        p=0.0 if inner_mask is None else dropout.p,
        activation=activation,
        **_norm_options(residual),
    )


def _memory_of(mechanism: Any, values: Tensor, mask: Tensor | None, grid: tuple[int, int] | None) -> Memory:
    if grid is not None:
        check_grid(grid, values)
    score, read = mechanism.score, mechanism.read
    mask = keep_mask(values, mask)
    if mask is not None and _support(mask) is not None:
        values = values.masked_fill(~mask[..., None], 0)
    content = _content(score)
    keys, read_values = (
        ops.linear(values, linear.weight, linear.bias) for linear in (content.key_projection, read.value_projection)
    )
    keys = split(keys, content.num_key_value_heads)
    if type(score) is RotaryDotScore:
        keys = ops.rotate(keys, _angles(score, keys), score.layout)
    return Memory(score=keys, read=split(read_values, read.num_key_value_heads), mask=mask)


def _norm_options(residual: Residual) -> dict[str, Any]:
    return {"epsilon": residual.norm.eps, "norm_first": residual.first}


def _support(mask: Tensor | None) -> Tensor | None:
    """(B, 1, S), or None where it would allow all positions."""
    return None if mask is None or bool(mask.all()) else mask[:, None]


def _turn(score: ScaledDotScore | RotaryDotScore, x: Tensor) -> Tensor | None:
    """The rotations of all steps, (T, D / 2) complex numbers; None of a score without."""
    if type(score) is not RotaryDotScore:
        return None
    angles = _angles(score, x)
    return torch.complex(angles.cos().to(x.dtype), angles.sin().to(x.dtype))


def _angles(score: RotaryDotScore, x: Tensor) -> Tensor:
    """The angles of all positions of x (B, T, …), (T, D / 2)."""
    return position_angles(torch.arange(x.shape[1], device=x.device), score.rotary_size, score.base)


def _refuse_self_attention(residual: Residual, attention: Any, x: Any) -> str | None:
    if (reason := _refuse_residual(residual, x)) is not None:
        return reason
    if (reason := _refuse_mechanism(attention, ("all", "past"), x.shape[1])) is not None:
        return reason
    size = residual.norm.weight.shape[0]
    return _refuse_rotation(attention.score) or _refuse_widths(attention, size, size)


def _refuse_cross_attention(
    residual: Residual, attention: Any, x: Any, memory: Any, *, alignment: bool = False
) -> str | None:
    if alignment:
        return "the weights are asked for"
    if (reason := _refuse_residual(residual, x)) is not None:
        return reason
    if (reason := _refuse_mechanism(attention, ("all",), None)) is not None:
        return reason
    if isinstance(memory, Memory):
        if memory.num_sentences != len(x):
            return "several rows share the memory of a sentence"
        if (reason := refuse(x, memory.score, memory.read)) is not None:
            return reason
    return _refuse_rotation(attention.score) or _refuse_widths(attention, residual.norm.weight.shape[0], None)


def _refuse_rotation(score: Any) -> str | None:
    if type(score) is not RotaryDotScore:
        return None
    if score.layout == "interleaved" and score.rotary_size == score.content.head_size:
        return None
    return "rotations of half a head, or of pairs that are not neighbours, are no product of complex numbers"


def _refuse_feed_forward(residual: Residual, feed_forward: Any, x: Any) -> str | None:
    if (reason := _refuse_residual(residual, x)) is not None:
        return reason
    kinds: list[tuple[Any, str, tuple[type, ...]]] = [(feed_forward, "feed_forward", (FeedForward, GatedFeedForward))]
    if type(feed_forward) is GatedFeedForward:
        kinds.append((feed_forward.gate, "feed_forward.gate", (nn.Linear,)))
    if type(feed_forward) in (FeedForward, GatedFeedForward):
        kinds += [
            (feed_forward.inner, "feed_forward.inner", (nn.Linear,)),
            (feed_forward.outer, "feed_forward.outer", (nn.Linear,)),
            (feed_forward.dropout, "feed_forward.dropout", DROPOUTS),
        ]
    if (reason := _refuse_modules(kinds)) is not None:
        return reason
    if type(feed_forward) is FeedForward and feed_forward.activation not in ("relu", "gelu", "silu"):
        return f"it does not know the activation {feed_forward.activation}"
    return None if feed_forward.outer.out_features == len(residual.norm.weight) else "its width changes"


def _refuse_memory(attention: Any, values: Any) -> str | None:
    # first the mechanism: of others, values may be several sequences
    if (reason := _refuse_modules([(attention, "attention", (Mechanism,))]) or refuse(values)) is not None:
        return reason
    if (reason := _refuse_mechanism(attention, ("all",), None)) is not None:
        return reason
    return None if values.shape[-1] == attention.score.memory_size else "the memory has another width"


def _refuse_residual(residual: Any, x: Any) -> str | None:
    if (reason := refuse(x)) is not None:
        return reason
    kinds: list[tuple[Any, str, tuple[type, ...]]] = [(residual, "residual", (Residual,))]
    if type(residual) is Residual:
        kinds += [(residual.norm, "residual.norm", (nn.LayerNorm,)), (residual.dropout, "residual.dropout", DROPOUTS)]
    if (reason := _refuse_modules(kinds)) is not None:
        return reason
    norm = residual.norm
    if norm.weight is None or norm.bias is None or norm.weight.shape != (x.shape[-1],):
        return "the layer norm has no weight or no bias"
    return refuse(x, norm.weight, norm.bias)


def _refuse_mechanism(attention: Any, extents: tuple[str, ...], num_positions: int | None) -> str | None:
    if (reason := _refuse_modules([(attention, "attention", (Mechanism,))])) is not None:
        return reason
    score, read = attention.score, attention.read
    if type(score) not in (ScaledDotScore, RotaryDotScore):
        return f"it knows no {type(score).__name__}"
    if type(read) is not ProjectedSum:
        return f"it knows no {type(read).__name__}"
    comparison = score.comparison()
    reason = declarations.ineligible(
        attention.parts, comparison, extents=extents, num_positions=num_positions, reports=True
    )
    if reason is not None:
        return reason
    content = _content(score)
    if type(content) is not ScaledDotScore:
        return f"it knows no {type(content).__name__}"
    linear = (nn.Linear,)
    return _refuse_modules(
        [
            (score, "attention.score", (type(score),)),
            (content, "attention.score", (ScaledDotScore,)),
            (content.query_projection, "attention.score.query_projection", linear),
            (content.key_projection, "attention.score.key_projection", linear),
            (read, "attention.read", (ProjectedSum,)),
            (read.value_projection, "attention.read.value_projection", linear),
            (read.output_projection, "attention.read.output_projection", linear),
        ]
    )


def _refuse_modules(modules: list[tuple[Any, str, tuple[type, ...]]]) -> str | None:
    """Why one of these modules, by name and known types, has to be called, or None."""
    for module, name, kinds in modules:
        # attention reports its weights (`_report`)
        if (reason := ineligible(module, name, *kinds, reports=True) or _unknown(module, name)) is not None:
            return reason
    return None


def _unknown(module: nn.Module, name: str) -> str | None:
    """An option of a module that is not in `OPTIONS`, or None."""
    known = OPTIONS.get(type(module))
    if known is None:
        return None
    for key in (*module.__dict__, *module._modules, *module._parameters):
        if key not in known and key != "training" and not key.startswith("_"):
            return f"it does not know the {key} of {name}"
    return None


def _refuse_widths(attention: Any, size: int, memory_size: int | None) -> str | None:
    """Queries, contexts and, if given, the memory must be as wide as the residual stream."""
    score, read = attention.score, attention.read
    widths = {score.query_size, read.context_size} | (set() if memory_size is None else {score.memory_size})
    if widths != {size}:
        return "its widths differ from the layer's"
    if score.num_heads != read.num_heads or _groups(score) != read.num_key_value_heads:
        return "keys and values have different heads"
    return None


def _groups(score: Any) -> int:
    return int(_content(score).num_key_value_heads)


def _content(score: Any) -> Any:
    """The score without its rotations."""
    return score.content if type(score) is RotaryDotScore else score


def _self_attention_modules(
    residual: Residual, attention: Any, x: Tensor, mask: Tensor | None, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    inner = residual.enter(x)
    attended, _ = attention(inner, attention.prepare(inner, mask=mask), generator=generator)
    return residual.leave(x, attended.context), inner


def _cross_attention_modules(
    residual: Residual,
    attention: Any,
    x: Tensor,
    memory: Tree,
    inputs: Callable[[], Tensor],
    alignment: bool,
    generator: torch.Generator | None,
    further: Mapping[str, Any],
) -> tuple[Tensor, Tree]:
    attended, _ = attention(
        residual.enter(x), memory, inputs=inputs(), alignment=alignment, generator=generator, **further
    )
    return residual.leave(x, attended.context), attended.alignment


SELF_ATTENTION = (
    Implementation(FUSED, _attend_to_self, _refuse_self_attention),
    Implementation("module by module", _self_attention_modules),
)
CROSS_ATTENTION = (
    Implementation(FUSED, _attend_to_source, _refuse_cross_attention),
    Implementation("module by module", _cross_attention_modules),
)
FEED_FORWARD = (
    Implementation(FUSED, _feed, _refuse_feed_forward),
    Implementation(
        "module by module",
        lambda residual, feed_forward, x: residual.leave(x, feed_forward(residual.enter(x))),
    ),
)
MEMORY = (
    Implementation(FUSED, _memory_of, _refuse_memory),
    Implementation("module by module", prepare_memory),
)
