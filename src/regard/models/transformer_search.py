"""A Transformer decoder's step in a search, in which keys and values are written once and never moved.

The packed copy of a decoder owns the buffers of one search. Its state is a table of slots, the places of the steps of
each hypothesis in the buffers, so a beam reorders slots and not keys and values. The source's keys and values have one
row per sentence, which its hypotheses share. `regard.ops.transformer_step` computes all layers in one call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from regard.attention import (
    BucketBiasWindow,
    CausalWindow,
    DroppedRead,
    FullWindow,
    Intersection,
    LinearBiasWindow,
    Mechanism,
    NormalisedDotScore,
    ProjectedSum,
    RotaryDotScore,
    ScaledDotScore,
    SlidingWindow,
    SoftmaxAlignment,
)
from regard.layers import FeedForward, Residual
from regard.layers.dropout import Dropout, drops
from regard.layers.module_weights import module_reason
from regard.layers.positions import position_angles
from regard.models.contract import DecoderOutput
from regard.models.outputs import named, output_of
from regard.models.transformer_layers import DecoderLayer
from regard.ops.choose import steps_for
from regard.ops.eligibility import autocast_reason, device_reason, kernel_reason, numba_reason, type_reason
from regard.ops.transformer_step import (
    Affine,
    AttentionWeights,
    LayerWeights,
    Layout,
    NormWeights,
    Present,
    Sources,
)

MODULE = "regard.ops.kernels.transformer_step"


@dataclass(frozen=True, slots=True)
class SearchMemory:
    """The sentences that remain, (B,) indices of the packed copy's rows of the source."""

    sentences: Tensor


@dataclass(frozen=True, slots=True)
class TransformerSearchState:
    """The slots of the steps of hypotheses in the buffers, (R, T) int32."""

    slots: Tensor


class Ineligible(Exception):
    """Why a layer cannot be computed by `ops.transformer_step`."""


def unsupported_reason(decoder: Any, layer: type, memory: Any = None) -> str | None:
    """Why a decoder's searches cannot use the packed copy, or None; without a memory, whatever the memory.

    Args:
        layer: the class of its layers.
    """
    weights = tuple(decoder.parameters())
    if (reason := kernel_reason() or autocast_reason()) is not None:
        return reason
    if (reason := device_reason("cpu", *weights) or type_reason(*weights)) is not None:
        return reason
    if memory is not None and torch.is_grad_enabled():
        return "gradients are enabled"
    if (reason := numba_reason(MODULE)) is not None:
        return reason
    try:
        described(decoder, layer)
    except Ineligible as error:
        return str(error)
    # keys and values are read in place, in the dtype of the weights
    prepared = memory if isinstance(memory, tuple) else ()
    return type_reason(*weights[:1], *(tensor for part in prepared for tensor in (part.score, part.read)))


@dataclass(frozen=True, slots=True)
class Described:
    """A decoder's layers, as `ops.transformer_step` reads them.

    Args:
        rotation: the number of rotated features and the base; None without rotation.
        windows: the windows of each layer with biases that depend on distances.
        reach: the number of steps that a row attends to, including its own; None for all.
    """

    layers: tuple[LayerWeights, ...]
    layout: Layout
    rotation: tuple[int, float] | None
    windows: tuple[tuple[Any, ...], ...]
    reach: int | None


def described(decoder: Any, layer: type) -> Described:
    """The weights of a decoder's layers of one class, and the layout that the layers have in common.

    Raises:
        Ineligible: if a module inside has hooks or the like, or is of a class that the operation does not support.
    """
    parts = [_layer(module, layer, f"layers.{index}") for index, module in enumerate(decoder.layers)]
    reach = _reach(decoder)
    layers, layouts, rotations, windows = zip(*parts, strict=True)
    if len(set(layouts)) > 1 or len(set(rotations)) > 1 or len({_shapes(layer) for layer in layers}) > 1:
        raise Ineligible("the layers differ in more than their weights")
    return Described(layers, layouts[0], rotations[0], windows, reach)


def _shapes(layer: LayerWeights) -> tuple[Any, ...]:
    attentions = [part for part in (layer.attention, layer.cross_attention) if part is not None]
    maps = [map for part in attentions for map in (part.query, part.key, part.value, part.output)]
    maps += [layer.inner, layer.gate, layer.outer]
    return tuple(map and (map.weight.shape, map.bias is None) for map in maps)


def _require(module: Any, name: str, kinds: tuple[type, ...]) -> None:
    if (reason := module_reason(module, name, *kinds)) is not None:
        raise Ineligible(reason)


def _undropped(module: Any, name: str) -> None:
    _require(module, name, (Dropout, nn.Dropout))
    if drops(module):
        raise Ineligible("dropout is active")


def _affine(module: Any, name: str) -> Affine:
    _require(module, name, (nn.Linear,))
    if not module.weight.is_contiguous():
        raise Ineligible(f"the weight of {name} is not contiguous")
    return Affine(module.weight, module.bias)


def _norm(residual: Any, name: str) -> tuple[NormWeights, bool]:
    _require(residual, name, (Residual,))
    _undropped(residual.dropout, f"{name}.dropout")
    _require(residual.norm, f"{name}.norm", (nn.LayerNorm,))
    norm = residual.norm
    if norm.weight is None or norm.bias is None or len(norm.normalized_shape) > 1:
        raise Ineligible(f"{name}.norm has no weight and bias")
    return NormWeights(norm.weight, norm.bias, norm.eps), residual.first


def _layer(layer: Any, kind: type, name: str) -> tuple[LayerWeights, Layout, tuple[int, float] | None, tuple[Any, ...]]:
    """The weights of one layer, its layout, its rotation, and the windows with biases."""
    _require(layer, name, (kind,))
    norms = [_norm(residual, f"{name}.residuals.{index}") for index, residual in enumerate(layer.residuals)]
    attention, heads, rotation, interleaved, windows = _attention(layer.attention, f"{name}.attention", causal=True)
    cross, cross_heads, turned = None, (0, 0, False), None
    if hasattr(layer, "cross_attention"):
        cross, cross_heads, turned, pairs, _ = _attention(
            layer.cross_attention, f"{name}.cross_attention", causal=False
        )
        if turned is not None and rotation is not None and (turned, pairs) != (rotation, interleaved):
            raise Ineligible("self- and cross-attention have different rotations")
        interleaved = interleaved if turned is None else pairs
    inner, outer, gate, activation = _feed_forward(layer.feed_forward, f"{name}.feed_forward")
    weights = LayerWeights(tuple(norm for norm, _ in norms), attention, cross, inner, outer, gate)
    layout = Layout(
        *heads[:2],
        *cross_heads[:2],
        normalised=heads[2],
        cross_normalised=cross_heads[2],
        is_pre=norms[0][1],
        activation=activation,
        interleaved=interleaved,
        rotated=rotation is not None,
        cross_rotated=turned is not None,
    )
    if any(first != layout.is_pre for _, first in norms):
        raise Ineligible("some layer norms precede their sublayers and others follow them")
    return weights, layout, rotation or turned, windows


def _feed_forward(module: Any, name: str) -> tuple[Affine, Affine, Affine | None, Any]:
    _require(module, name, (FeedForward,))
    _undropped(module.dropout, f"{name}.dropout")
    inner, outer = _affine(module.inner, f"{name}.inner"), _affine(module.outer, f"{name}.outer")
    if module.gate is not None:
        return inner, outer, _affine(module.gate, f"{name}.gate"), "silu"
    return inner, outer, None, module.activation


def _attention(
    mechanism: Any, name: str, *, causal: bool
) -> tuple[AttentionWeights, tuple[int, int, bool], tuple[int, float] | None, bool, tuple[Any, ...]]:
    """The weights, numbers of heads and whether queries are normalised, rotation and its layout, and windows."""
    _require(mechanism, name, (Mechanism,))
    score, read, rotation, interleaved = mechanism.score, mechanism.read, None, True
    _require(score, f"{name}.score", (ScaledDotScore, RotaryDotScore, NormalisedDotScore))
    if type(score) is RotaryDotScore:
        rotation, interleaved = (score.rotary_size, score.base), score.layout == "interleaved"
        score = score.content
        _require(score, f"{name}.score.content", (ScaledDotScore, NormalisedDotScore))
    normalised = type(score) is NormalisedDotScore
    gain = None
    if normalised:
        gain, score = float(score.gain), score.content
        _require(score, f"{name}.score.content", (ScaledDotScore,))
    if type(read) is DroppedRead:
        _require(read, f"{name}.read", (DroppedRead,))
        _undropped(read.dropout, f"{name}.read.dropout")
        read = read.values
    _require(mechanism.alignment, f"{name}.alignment", (SoftmaxAlignment,))
    _require(read, f"{name}.read", (ProjectedSum,))
    if (read.num_heads, read.num_key_value_heads) != (score.num_heads, score.num_key_value_heads):
        raise Ineligible(f"{name} has different heads in its score and its read")
    maps = [
        _affine(module, f"{name}.{part}")
        for module, part in (
            (score.query_projection, "score.query_projection"),
            (score.key_projection, "score.key_projection"),
            (read.value_projection, "read.value_projection"),
            (read.output_projection, "read.output_projection"),
        )
    ]
    query, key, value, output = maps
    if len(key.weight) != len(value.weight):
        raise Ineligible(f"{name} has keys and values of different sizes")
    scale = (score.scale if gain is None else gain) * mechanism.alignment.softmax_factor
    weights = AttentionWeights(query, output, scale, key if causal else None, value if causal else None)
    windows = tuple(_windows(mechanism.window, f"{name}.window", causal=causal))
    return weights, (score.num_heads, score.num_key_value_heads, normalised), rotation, interleaved, windows


def _windows(window: Any, name: str, *, causal: bool) -> Iterable[Any]:
    """The windows with biases, if the others allow exactly the steps that the operation attends to."""
    if not causal:
        _require(window, name, (FullWindow,))
        return
    inner = window.windows if type(window) is Intersection else [window]
    ends = 0
    for part in (window, *(inner if type(window) is Intersection else ())):
        _require(part, name, (Intersection, CausalWindow, SlidingWindow, LinearBiasWindow, BucketBiasWindow))
    for part in inner:
        if isinstance(part, SlidingWindow):
            if part.front != 0:
                raise Ineligible(f"{name} does not end at the step")
            ends += 1
        else:
            yield part
    if ends != 1:
        raise Ineligible(f"{name} does not end at the step")


def _reach(decoder: Any) -> int | None:
    backs = set()
    for layer in decoder.layers:
        window = layer.attention.window
        inner = window.windows if type(window) is Intersection else [window]
        backs |= {part.back for part in inner if isinstance(part, SlidingWindow)}
    if len(backs) != 1:
        raise Ineligible("the windows of the layers differ")
    (back,) = backs
    return None if back is None else back + 1


class TransformerSteps:
    """The steps of a decoder's layers in one search, with tables that depend on the number of the step.

    Args:
        decoder: with `embedding`, `layers`, `norm` and `head`.
        layer: the class of its layers.
        sources: the memory of cross-attention, or None.
    """

    def __init__(self, decoder: Any, layer: type, sources: Sources | None) -> None:
        self.described = described(decoder, layer)
        self.layers = steps_for("transformer_step", "cpu").LayerSteps(
            self.described.layers, self.described.layout, sources
        )
        self.reach = self.described.reach
        self.embedding, self.norm = decoder.embedding, decoder.norm
        self.head = decoder.head
        self.like = next(decoder.layers.parameters())
        # the cosines and sines of rotations and the biases of windows, for the first steps
        self.tables: dict[str, Tensor] = {}

    def embed(self, inputs: Tensor, step: int, position: Tensor | None = None) -> Tensor:
        """x (R, D) of inputs at one step, or at positions (R,)."""
        at = torch.full((len(inputs),), step) if position is None else position
        return self.embedding(inputs, at).clone(memory_format=torch.contiguous_format)

    def run(self, x: Tensor, slots: Tensor, begins: Tensor, sentences: Tensor, weights: Any) -> tuple[Tensor, ...]:
        """Computes the layers from x (R, D), in place: the slots (R, T + 1) including this step, and requested
        weights."""
        rows, step = slots.shape
        first = self.layers.reserve(rows)
        added = torch.arange(first, first + rows, dtype=torch.int32)[:, None]
        slots = torch.cat([slots, added], 1)
        present = Present(slots, begins, sentences, self._bias(step + 1), self._turn(step))
        return slots, self.layers.run(x, first, present, weights=weights)

    def _turn(self, step: int) -> Tensor | None:
        if self.described.rotation is None:
            return None
        if step >= len(self.tables.get("turns", ())):
            angles = position_angles(torch.arange(2 * step + 32), *self.described.rotation)
            self.tables["turns"] = torch.stack([angles.cos(), angles.sin()], 1).to(self.like.dtype)
        return self.tables["turns"][step]

    def _bias(self, steps: int) -> Tensor | None:
        """The sums of the windows' biases by distance, (L, H, ≥ steps)."""
        windows, heads = self.described.windows, self.described.layout.num_heads
        if not windows[0]:
            return None
        if "bias" not in self.tables or steps > self.tables["bias"].shape[2]:
            offset = -torch.arange(2 * steps + 32)[None, None]
            parts = [sum(window.bias(offset, self.like.dtype)[0] for window in layer) for layer in windows]
            self.tables["bias"] = torch.stack([part.expand(heads, -1) for part in parts])
        return self.tables["bias"]


class PackedCopy:
    """The steps of a `TransformerDecoder` in one search, if `unsupported_reason` is None.

    Slots are written once, so a state remains valid whatever steps follow it.

    Args:
        decoder: a `TransformerDecoder`.
        memory: the memory that it prepared.
    """

    def __init__(self, decoder: Any, memory: Any) -> None:
        sources = Sources(tuple(part.score for part in memory), tuple(part.read for part in memory), memory[0].mask)
        self.steps = TransformerSteps(decoder, DecoderLayer, sources)
        self.continuous = decoder.continuous
        self.memory = SearchMemory(torch.arange(len(memory[0].read)))
        self.last: list[Tensor] = []

    def initial_state(self, memory: SearchMemory, num_hypotheses: int = 1) -> TransformerSearchState:
        """As of the decoder."""
        return TransformerSearchState(torch.empty(len(memory.sentences) * num_hypotheses, 0, dtype=torch.int32))

    def step(
        self,
        inputs: Tensor,
        memory: SearchMemory,
        state: TransformerSearchState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, TransformerSearchState]:
        """As of the decoder."""
        rows = len(inputs)
        x = self.steps.embed(inputs, state.slots.shape[1])
        sentences, begins = self._rows(memory, rows)
        slots, weights = self.steps.run(x, state.slots, begins, sentences, "cross" if alignment else None)
        alignments: dict[str, Tensor] = {}
        for index, layer in enumerate(() if weights is None else weights):
            alignments |= named(f"cross.{index}", layer)
        outputs = output_of(self.steps.head(self.steps.norm(x)), alignments, continuous=self.continuous)
        return outputs, TransformerSearchState(slots)

    def _rows(self, memory: SearchMemory, rows: int) -> tuple[Tensor, Tensor]:
        """The sentence of each row, and the first step that it attends to; kept until a sentence leaves."""
        if not self.last or self.last[0] is not memory.sentences or len(self.last[1]) != rows:
            sentences = memory.sentences.repeat_interleave(rows // max(len(memory.sentences), 1))
            self.last[:] = memory.sentences, sentences, torch.zeros_like(sentences)
        return self.last[1], self.last[2]
